"""Settings that models share: initial weights and width."""

import math

import pytest

from conftest import experiment
from fedpan_exp.system.errors import ConfigError

FAN_IN = 28 * 28


@pytest.mark.parametrize(
    ("init", "deviation"),
    [("authors", 0.01), ("he", math.sqrt(2 / FAN_IN)), ("torch", 1 / math.sqrt(3 * FAN_IN))],
)
def test_the_first_layer_starts_with_the_deviation_of_its_initialisation(init, deviation):
    first, *_ = experiment("dataset=mnist", "model=mlp", f"model.init={init}").network().parameters()
    assert first.std().item() == pytest.approx(deviation, rel=0.01)


def test_biases_start_at_zero_except_in_torchs_initialisation():
    net = {init: experiment("dataset=mnist", f"model.init={init}").network() for init in ("he", "torch")}
    assert not net["he"].head.bias.any()
    assert 0 < net["torch"].head.bias.abs().max() <= 1 / math.sqrt(1024)


@pytest.mark.parametrize(
    ("model", "norm", "widths"),
    [
        ("vgg9", "none", [8, 16, 32, 32, 64, 64, 128, 128]),
        ("vgg9", "gn32", [32, 32, 32, 32, 64, 64, 128, 128]),  # rounded to 32 groups; hidden layers have no norm
        ("resnet20", "bn", [16, 32, 64]),
        ("resnet20", "gn32", [32, 64, 128]),
    ],
)
def test_the_width_factor_multiplies_all_widths(model, norm, widths):
    overrides = ("dataset=cifar10", f"model={model}", f"model.norm={norm}", "model.width_factor=0.25")
    sizes = experiment(*overrides).meta_network().permutation_spec.sizes
    assert [size for group, size in sizes.items() if not group.startswith("block")] == widths


def test_the_width_factor_must_be_positive():
    with pytest.raises(ConfigError, match="width_factor must be above 0, got 0"):
        experiment("dataset=cifar10", "model.width_factor=0")
