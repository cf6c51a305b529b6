"""Settings that models share: initial weights and width."""

import math

import pytest
import torch
from torch.nn.functional import conv2d

from conftest import experiment
from fedpan_exp.models.resnet import ConvNorm
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


@pytest.mark.parametrize("channels", [1, 4, 16])
def test_the_projection_has_the_outputs_and_gradients_of_a_strided_convolution(channels):
    """oneDNN's own corrupts memory for few channels in this layout; in 64 bits, oneDNN is not used."""
    projection = ConvNorm(channels, 8, kernel=1, stride=2, norm="none").to(memory_format=torch.channels_last)
    x = torch.randn(4, channels, 8, 8).contiguous(memory_format=torch.channels_last).requires_grad_()
    inputs = (x, projection.conv.weight, projection.conv.bias)
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]

    out, expected = projection(x), conv2d(*exact, stride=2)
    gradients, exact_gradients = (
        torch.autograd.grad(y.square().sum(), of) for y, of in ((out, inputs), (expected, exact))
    )
    for ours, theirs in zip((out, *gradients), (expected, *exact_gradients), strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-4, atol=1e-4)
