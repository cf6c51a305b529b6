"""Position encodings: the formula, neutral settings, and that they are never uploaded."""

import math

import pytest
import torch

from conftest import experiment
from fedpan_exp.models import ENCODINGS, Pan, inactive_layers
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.position import PositionEncoding
from fedpan_exp.training import FlatNet


def test_values_follow_the_formula_of_the_paper():
    expected = [0.3 * math.sin(2 * math.pi * 2 * j / 10) for j in range(10)]
    added = PositionEncoding("fc1", 10, "add", A=0.3, T=2.0).values
    multiplied = PositionEncoding("fc1", 10, "mul", A=0.3, T=2.0).values
    torch.testing.assert_close(added, torch.tensor(expected))
    torch.testing.assert_close(multiplied, 1 + torch.tensor(expected))


def test_each_channel_gets_its_own_value():
    h = torch.randn(2, 4, 3, 3)
    added = PositionEncoding("conv1", 4, "add", A=0.5, T=1.0)
    for j, e in enumerate([0.0, 0.5, 0.0, -0.5]):
        torch.testing.assert_close(added(h)[:, j], h[:, j] + e)
    multiplied = PositionEncoding("conv1", 4, "mul", A=0.5, T=1.0)
    torch.testing.assert_close(multiplied(h)[:, 1], h[:, 1] * 1.5)


@pytest.mark.parametrize("pan", [Pan("add", A=0.0), Pan("mul", A=0.0), Pan("mul", A=0.5, T=0.0)])
def test_a_neutral_encoding_is_the_plain_network(pan):
    x = torch.randn(5, 1, 4, 4)
    nets = [MLP(16, 8, 2, 3, p) for p in (pan, Pan())]
    nets[1].load_state_dict(nets[0].state_dict())
    assert torch.equal(nets[0](x), nets[1](x))


def test_the_encoding_is_not_part_of_weights_or_buffers():
    net = MLP(16, 8, 2, 3, Pan("mul", A=0.5))
    assert all("pe" not in name for name in net.state_dict())
    flat = FlatNet(net)
    assert flat.buffers.numel() == 0
    assert flat.weights.numel() == 16 * 8 + 8 + 8 * 8 + 8 + 8 * 3 + 3


def test_layers_that_are_neutral_at_T_are_reported():
    net = experiment("dataset=cifar10", "model=vgg11", "pan=mul", "pan.T=32").network()
    assert inactive_layers(net) == {"T=32 makes every sine 0 at width 64": ["conv1"]}
    assert inactive_layers(experiment("dataset=cifar10", "pan=mul").network()) == {}


def test_batch_norm_after_an_encoding_cancels_it():
    names = ("dataset=cifar10", "model=vgg9", "model.norm=bn", "pan=mul")
    authors = experiment(*names, "pan.placement=authors").network()
    assert inactive_layers(authors) == {"the BatchNorm after it cancels it": [f"conv{i}" for i in range(1, 7)]}
    assert inactive_layers(experiment(*names).network()) == {}
    # In training, the outputs are indeed those of the plain network, apart from BatchNorm's epsilon.
    plain = experiment(*names[:3], "pan=off", "pan.placement=authors").network()
    plain.load_state_dict(authors.state_dict())
    x = torch.randn(8, 3, 32, 32)
    torch.testing.assert_close(authors(x), plain(x), rtol=1e-2, atol=1e-3)


def test_placement_of_the_paper_and_of_the_released_code():
    def encoded(*names):
        net = experiment(*names, "pan=mul").network()
        return [m.layer for m in net.modules() if isinstance(m, PositionEncoding)]

    vgg9 = ("dataset=cifar10", "model=vgg9")
    convs = [f"conv{i}" for i in range(1, 7)]
    assert encoded(*vgg9) == [*convs, "fc1", "fc2"]
    assert encoded(*vgg9, "pan.placement=authors") == convs
    resnet = ("dataset=cifar10", "model=resnet20")
    assert "stem" in encoded(*resnet)
    assert "stem" not in encoded(*resnet, "pan.placement=authors")
    assert sum("projection" in layer for layer in encoded(*resnet)) == 2


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize(("J", "T"), [(1, 1.0), (10, 1.0), (64, 4.0)])
def test_the_values_of_every_encoding_are_between_minus_A_and_A(name, J, T):
    values = PositionEncoding("fc1", J, "add", A=0.3, T=T, encoding=name).values
    assert values.shape == (J,)
    assert values.abs().max() <= 0.3 + 1e-7
    again = PositionEncoding("fc9", J, "mul", A=0.3, T=T, encoding=name).values
    torch.testing.assert_close(again, 1 + values)


def test_encodings_against_values_by_hand():
    def values(name, J, T=1.0):
        return PositionEncoding("fc1", J, "add", A=2.0, T=T, encoding=name).values.tolist()

    half = math.sqrt(0.5)
    assert values("cosine", 4) == pytest.approx([2, 0, -2, 0])
    assert values("sign", 4) == [2, 2, -2, -2]
    assert values("sign", 4, T=2.0) == [2, -2, 2, -2]
    assert values("ramp", 5) == pytest.approx([-2, -1, 0, 1, 2])
    assert values("quarter", 2) == pytest.approx([0, 2 * half])
    assert values("ramp", 5, T=3.0) == values("ramp", 5)


def test_which_encodings_have_distinct_values():
    counts = {name: PositionEncoding("fc1", 64, "mul", 0.1, 1.0, name).value_counts for name in ENCODINGS}
    assert {name for name, per_value in counts.items() if max(per_value) == 1} == {"ramp", "quarter", "random"}
    assert sorted(counts["sine"]) == [1, 1, *[2] * 31]  # J/2 + 1 values: the peaks once, all others twice
    assert counts["sign"] == [32, 32]
    assert max(PositionEncoding("fc1", 64, "mul", 0.1, 8.0).value_counts) == 16


def test_equal_values_of_all_neurons_are_inactive():
    net = experiment("pan=mul", "pan.encoding=cosine", "pan.T=0", "model.width=8").network()
    assert inactive_layers(net) == {"all neurons have the same value at width 8": ["fc1", "fc2", "fc3"]}


def test_pans_are_off_if_T_is_neutral_at_every_width():
    def off(*overrides):
        return experiment("dataset=cifar10", *overrides).pans_off

    assert off("model=mlp", "model.width=64", "pan=mul", "pan.T=32")
    assert off("model=mlp", "pan=add", "pan.T=0")
    assert not off("model=mlp", "model.width=64", "pan=mul", "pan.T=32", "pan.encoding=ramp")
    assert not off("model=vgg11", "pan=mul", "pan.T=32")  # the first layer only
    assert not off("model=mlp", "pan=mul")
