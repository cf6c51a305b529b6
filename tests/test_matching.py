"""Matching neurons by activations and by weights; a shuffle is undone exactly."""

import itertools

import pytest
import torch
from networks import NETWORKS, narrow, network, with_slow_tail

from fedpan_exp.alignment.fusion import interpolate
from fedpan_exp.alignment.kept_ratio import kept_ratio
from fedpan_exp.alignment.matching import assign, match_activations, match_weights
from fedpan_exp.alignment.permutation_spec import PermutationSpec, permute
from fedpan_exp.alignment.shuffle import sample_permutations
from fedpan_exp.system.rng import rng


def test_an_assignment_is_the_best_of_all_permutations():
    similarity = torch.rand(5, 5, generator=rng(0, "similarity"))
    best = max(itertools.permutations(range(5)), key=lambda perm: sum(similarity[i, j] for i, j in enumerate(perm)))
    assert assign(similarity).tolist() == list(best)


def test_neurons_are_matched_within_sections():
    similarity = torch.tensor([[0, 1, 9, 0], [1, 0, 0, 9], [9, 0, 1, 2], [0, 9, 2, 1]])
    assert assign(similarity).tolist() == [2, 3, 0, 1]
    assert assign(similarity, sections=2).tolist() == [1, 0, 3, 2]


def test_neurons_with_equal_activations_are_matched():
    a = torch.rand(6, 20, generator=rng(0, "representations"))
    perm = torch.tensor([3, 1, 5, 0, 4, 2])
    match = match_activations(a, a[perm])
    assert torch.equal(a[perm][match], a)
    assert kept_ratio(perm) == pytest.approx(2 / 6)
    assert kept_ratio(match_activations(a, a)) == 1


def test_the_sum_of_distances_is_minimized_not_of_squares():
    a, b = torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0], [2.1]])
    b = torch.cat([b, torch.tensor([[0.0], [0.5]])], 1)
    a = torch.cat([a, torch.zeros(2, 1)], 1)
    # identity: 1 + sqrt(1.1^2 + 0.5^2) = 2.21; swapped: sqrt(2.1^2 + 0.5^2) + 0 = 2.16; sums of squares: 2.46 and 4.66
    assert match_activations(a, b).tolist() == [1, 0]


@pytest.mark.parametrize(("model", "norm"), with_slow_tail(NETWORKS))
def test_matching_weights_undoes_a_shuffle_so_that_fusing_changes_nothing(model, norm):
    net = network(model, norm, "pan=off", *narrow(model))
    state = net.state_dict()
    shuffled = permute(state, net.permutation_spec, sample_permutations(net.permutation_spec, 1.0, rng(1, "shuffle")))
    permutations = match_weights(state, shuffled, net.permutation_spec, rng(0, "matching"))
    restored = permute(shuffled, net.permutation_spec, permutations)
    assert all(torch.equal(restored[name], state[name]) for name in state)
    for mu in (0, 0.3, 0.5, 1):
        fused = interpolate(state, restored, mu)
        assert all(torch.equal(fused[name], state[name]) for name in state)


def test_matching_never_increases_the_distance_and_terminates_with_ties():
    spec = PermutationSpec()
    spec.group("fc1", 6)
    spec.group("fc2", 6)
    spec.dense("fc1", None, "fc1")
    spec.dense("fc2", "fc1", "fc2")
    spec.dense("head", "fc2", None)
    shapes = {"fc1": (6, 2), "fc2": (6, 6), "head": (3, 6)}
    for seed in range(20):
        g = rng(seed, "weights")
        a, b = (
            {f"{name}.weight": torch.randn(shape, generator=g).round() for name, shape in shapes.items()}
            | {f"{name}.bias": torch.zeros(shape[0]) for name, shape in shapes.items()}
            for _ in range(2)
        )
        moved = permute(b, spec, match_weights(a, b, spec, rng(seed, "matching")))
        before, after = (sum(((a[name] - other[name]) ** 2).sum() for name in a) for other in (b, moved))
        assert after <= before


def test_networks_of_different_widths_are_rejected():
    with pytest.raises(ValueError, match=r"equal shapes, got \[3, 5\] and \[4, 5\]"):
        match_activations(torch.zeros(3, 5), torch.zeros(4, 5))
    net, wider = (network("mlp", None, f"model.width={width}") for width in (4, 5))
    with pytest.raises(ValueError, match=r"got body.fc1.weight of \[4, 3072\] and \[5, 3072\]"):
        match_weights(net.state_dict(), wider.state_dict(), net.permutation_spec, rng(0, "matching"))


def test_neurons_that_are_inactive_in_both_networks_keep_their_position():
    """Inactive neurons are all equal, so that a solver is free to swap them: it would move 13 of the 15 here."""
    g = torch.Generator().manual_seed(3)
    a = torch.randn(200, 50, generator=g).relu()
    b = (a + 0.3 * torch.randn(200, 50, generator=g)).relu()
    inactive_a, inactive_b = (torch.rand(200, generator=g) < 0.3 for _ in range(2))
    a[inactive_a], b[inactive_b] = 0, 0
    perm, both = match_activations(a, b), (inactive_a & inactive_b).nonzero().flatten()
    assert len(both) > 5
    assert torch.equal(perm[both], both)
