"""The network learns, and permuting its neurons as its permutation_spec says does not change its output."""

import torch

import fedpan_exp as fp
from fedpan_exp.alignment.permutation_spec import permute

SETTINGS = ("plugins=[example.py]", "model=example", "model.width=16", "dataset=digits", "ranks=1")


def test_a_permutation_of_the_neurons_does_not_change_the_output() -> None:
    net = fp.experiment(*SETTINGS, "pan=off").network()
    x = torch.rand(4, 1, 8, 8)
    before = net(x)
    reverse = {group: torch.arange(size).flip(0) for group, size in net.permutation_spec.sizes.items()}
    net.load_state_dict(permute(net.state_dict(), net.permutation_spec, reverse))
    assert torch.allclose(net(x), before, atol=1e-6)


def test_it_learns() -> None:
    first, *_, last = (round.test() for round in fp.federate(*SETTINGS, "fl_scene.H=3", "fl_scene.alpha=10"))
    assert last.loss < first.loss
