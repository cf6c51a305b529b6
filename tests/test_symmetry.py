"""Permuting neurons by the permutation spec changes the output only with PANs."""

import pytest
import torch
from networks import NETWORKS, network, with_slow_tail

from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.shuffle import sample_permutation, sample_permutations
from fedpan_exp.models import Network
from fedpan_exp.system.rng import rng


def change_by_shuffling(net: Network) -> float:
    """Largest change of the output, relative to the largest output."""
    x = torch.randn(2, 3, 32, 32, generator=rng(0, "input"), dtype=torch.float64)
    with torch.no_grad():
        before = net(x)
        permutations = sample_permutations(net.permutation_spec, 1.0, rng(1, "shuffle"))
        net.load_state_dict(permute(net.state_dict(), net.permutation_spec, permutations))
        return ((net(x) - before).abs().max() / before.abs().max()).item()


@pytest.mark.parametrize(("model", "norm"), with_slow_tail(NETWORKS))
def test_shuffling_changes_the_output_only_with_pans(model, norm):
    assert change_by_shuffling(network(model, norm, "pan=off")) < 1e-9
    assert change_by_shuffling(network(model, norm, "pan=add", "pan.A=0.5")) > 1e-3
    assert change_by_shuffling(network(model, norm, "pan=mul", "pan.A=0.5")) > 1e-3


@pytest.mark.parametrize(("model", "norm"), with_slow_tail(NETWORKS))
def test_the_spec_covers_every_tensor_and_axis(model, norm):
    net = network(model, norm, "pan=off")
    state = {name: tensor for name, tensor in net.state_dict().items() if tensor.dim() > 0}
    assert net.permutation_spec.axes.keys() == state.keys()
    for name, axes in net.permutation_spec.axes.items():
        assert len(axes) == state[name].dim()
        for length, axis in zip(state[name].shape, axes, strict=True):
            assert axis is None or net.permutation_spec.sizes[axis.group] * axis.block == length


def test_a_shuffle_moves_the_expected_fraction():
    perms = [sample_permutation(1000, 0.1, rng(seed, "order")) for seed in range(20)]
    ratio = torch.stack([(perm == torch.arange(1000)).float().mean() for perm in perms]).mean().item()
    assert ratio == pytest.approx(0.826, abs=0.02)  # each swap moves about two neurons
    assert all(torch.equal(perm.sort().values, torch.arange(1000)) for perm in perms)
    assert torch.equal(sample_permutation(50, 0.0, rng(0, "order")), torch.arange(50))
    assert (sample_permutation(50, 1.0, rng(0, "order")) != torch.arange(50)).all()
