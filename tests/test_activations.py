"""Activations: the right values of the right layer, for every network."""

import pytest
import torch
from networks import NETWORKS, narrow, network, with_slow_tail

from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.shuffle import sample_permutations
from fedpan_exp.models import activations, capture_activations
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.rng import rng

X = torch.randn(3, 3, 32, 32, generator=rng(0, "input"), dtype=torch.float64)


def test_activations_are_taken_after_encoding_and_relu():
    net = network("mlp", None, "pan=mul", "pan.A=0.5", "model.width=6", "model.depth=2")
    state, x = net.state_dict(), X.flatten(1)
    e = 1 + 0.5 * torch.sin(2 * torch.pi * torch.arange(6) / 6)
    for layer in ("fc1", "fc2"):
        x = (e * (x @ state[f"body.{layer}.weight"].T + state[f"body.{layer}.bias"])).relu()
        assert torch.allclose(activations(net, X, [layer])[layer], x.T, atol=1e-6)
    logits = x @ state["head.weight"].T + state["head.bias"]
    assert torch.allclose(activations(net, X, ["head"])["head"], logits.T, atol=1e-6)


@pytest.mark.parametrize(("model", "norm"), with_slow_tail([net for net in NETWORKS if net[1] in (None, "bn")]))
def test_every_group_has_activations_that_are_permuted_with_it(model, norm):
    net = network(model, norm, "pan=off", *narrow(model))
    layers = [*net.permutation_spec.sizes, "head"]
    before = activations(net, X, layers)
    permutations = sample_permutations(net.permutation_spec, 1.0, rng(1, "shuffle"))
    net.load_state_dict(permute(net.state_dict(), net.permutation_spec, permutations))
    for layer, values in activations(net, X, layers).items():
        perm = permutations.get(layer, torch.arange(10))
        assert len(values) == len(perm)
        assert torch.allclose(values, before[layer][perm], atol=1e-9)
        assert layer == "head" or values.min() >= 0


def test_a_stage_is_its_last_block_and_a_channel_all_positions_or_their_maximum():
    net = network("resnet20", "bn", "pan=off", "model.width=4")
    with torch.no_grad():
        out = net.body[:-2](X)  # the output of stage 3, before pooling
    assert torch.allclose(activations(net, X, ["stage3"])["stage3"], out.transpose(0, 1).flatten(1))
    assert torch.allclose(activations(net, X, ["stage3"], "max")["stage3"], out.amax((2, 3)).T)


def test_many_images_are_split_into_batches_and_hooks_are_removed():
    net = network("mlp", None, "model.width=4", "model.depth=1")
    x = torch.randn(250, 3, 32, 32, generator=rng(1, "input"), dtype=torch.float64)
    whole = activations(net, x, ["fc1"])["fc1"]
    assert whole.shape == (4, 250)
    assert torch.allclose(whole[:, 120:130], activations(net, x[120:130], ["fc1"])["fc1"])
    assert not any(module._forward_hooks for module in net.modules())


def test_an_unknown_layer_is_rejected_with_the_valid_names():
    net = network("mlp", None, "model.width=4")
    with (
        pytest.raises(ConfigError, match=r"study.layers must be fc1, fc2, fc3 or head, got fc9; did you mean fc"),
        capture_activations(net, ["fc9"]),
    ):
        pass
