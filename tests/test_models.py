"""Settings that all models share: initial weights."""

import math

import pytest

from conftest import experiment

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
