"""Bayesian matching: closed forms, the threshold at which a layer grows, and what does not depend on the order."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import network

from conftest import experiment
from fedpan_exp.alignment.bayesian_matching import Block, Prior, estimate_atoms, match_atoms
from fedpan_exp.alignment.layer_chain import count_entries, incoming_weights, layer_chain, rearrange
from fedpan_exp.alignment.matching import assign
from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.pfnm import can_fuse, fuse_pfnm
from fedpan_exp.alignment.shuffle import sample_permutations
from fedpan_exp.models import Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.system.rng import rng


def copies(J: int, L: int, squared_norm: float) -> list[torch.Tensor]:
    """J copies of a layer of orthogonal neurons, each in another order."""
    layer = torch.eye(L, dtype=torch.float64) * squared_norm**0.5
    return [layer[torch.randperm(L, generator=rng(0, "order", j))] for j in range(J)]


def neurons(J: int, L: int, squared_norm: float, gamma: float = 7.0) -> int:
    """How many neurons a layer of L has after matching."""
    places = match_atoms(copies(J, L, squared_norm), Prior(gamma=gamma), rng(0), capacity=J * L)
    return len(torch.cat(places).unique())


@pytest.mark.parametrize("J", [2, 5, 12])
def test_shuffled_copies_are_matched_exactly(J):
    atoms = copies(J, 9, 2.0)
    places = match_atoms(atoms, Prior(), rng(0))
    torch.testing.assert_close(estimate_atoms(atoms, places, 9), atoms[0])
    torch.testing.assert_close(estimate_atoms(atoms, places, 9, Prior()), atoms[0] * J / (J + 1))


def test_one_client_keeps_its_order():
    atoms = [torch.randn(6, 4, generator=rng(0))]
    places = match_atoms(atoms, Prior(gamma=7), rng(0), capacity=9)
    assert places[0].tolist() == list(range(6))
    expected = torch.cat([atoms[0], torch.zeros(3, 4)]).double()
    torch.testing.assert_close(estimate_atoms(atoms, places, 9), expected)
    torch.testing.assert_close(estimate_atoms(atoms, places, 9, Prior()), expected / 2)


@pytest.mark.parametrize(
    ("J", "squared_norm", "more"), [(16, 3.15, 15), (16, 3.17, 0), (6, 1.58, 10), (6, 65.0, 0), (16, 65.0, 0)]
)
def test_with_the_released_gamma_a_layer_grows_by_the_prior_alone(J, squared_norm, more):
    """A client makes its m-th new atom iff |w|^2 < 3 (2 ln(gamma / J) - 2 ln m + ln(J - 1)): 3.16 for J = 16, m = 1."""
    assert neurons(J, 24, squared_norm) == 24 + more


@pytest.mark.parametrize("J", [2, 6, 16])
def test_nothing_grows_with_gamma_1(J):
    assert neurons(J, 8, 1e-3, gamma=1.0) == 8


def test_the_gains_of_two_neurons_by_hand():
    """w = 1 and 2. Join: (1 + 2)^2 / 3 - 1 / 2 + ln 1 = 2.5. New: 4 / 2 + 2 ln(gamma / 2): better from 2 e^(1/4) on."""
    atoms, threshold = [torch.tensor([[1.0]]), torch.tensor([[2.0]])], 2 * math.exp(0.25)
    for gamma, expected in ((threshold - 0.01, [0]), (threshold + 0.01, [1])):
        places = match_atoms(atoms, Prior(gamma=gamma), rng(0), capacity=2, sweeps=0)
        assert places[1].tolist() == expected


def test_variances_scale_the_gains():
    """Prior variance 2, noise 1/2: W = 2 w, S = 1/2 + 2. Join: |2 + 4|^2 / 4.5 - 4 / 2.5 = 6.4; new: 16 / 2.5 + ..."""
    atoms, threshold = [torch.tensor([[1.0]]), torch.tensor([[2.0]])], 2.0
    for gamma, expected in ((threshold - 0.01, [0]), (threshold + 0.01, [1])):
        assert match_atoms(atoms, Prior(2.0, 0.5, gamma), rng(0), capacity=2, sweeps=0)[1].tolist() == expected


def test_two_clients_are_matched_by_inner_products():
    """With J = 2 and fixed width the sum of |w + v|^2 is largest: the assignment with the largest inner products."""
    first, second = torch.randn(2, 12, 5, generator=rng(1), dtype=torch.float64)
    places = match_atoms([first, second], Prior(), rng(0), sweeps=0)
    assert places[1].argsort().equal(assign(first @ second.T))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.floats(0.1, 20), st.integers(0, 99))
def test_every_neuron_gets_one_atom_and_no_atom_two_neurons_of_a_client(sizes, gamma, seed):
    atoms = [torch.randn(size, 3, generator=rng(seed, j)) for j, size in enumerate(sizes)]
    capacity = sum(sizes)
    places = match_atoms(atoms, Prior(gamma=gamma), rng(seed), capacity)
    counts = torch.zeros(capacity)
    for own, place in zip(sizes, places, strict=True):
        assert len(place.unique()) == own
        counts[place] += 1
    assert counts.sum() == sum(sizes)


def test_permuting_a_client_permutes_its_places_only():
    atoms = [torch.randn(8, 4, generator=rng(3, j), dtype=torch.float64) for j in range(4)]
    perm = torch.randperm(8, generator=rng(4))
    places = match_atoms(atoms, Prior(), rng(0))
    permuted = match_atoms([*atoms[:2], atoms[2][perm], atoms[3]], Prior(), rng(0))
    assert permuted[2].equal(places[2][perm])
    assert [permuted[j].equal(places[j]) for j in (0, 1, 3)] == [True] * 3


def test_entries_of_equal_precision_may_be_divided_into_blocks():
    atoms = [torch.randn(8, 6, generator=rng(5, j), dtype=torch.float64) for j in range(3)]
    blocks = [Block(2, [1.0] * 3), Block(1, [1.0] * 3), Block(3, [1.0] * 3)]
    plain, divided = (match_atoms(atoms, Prior(gamma=3), rng(0), 24, parts) for parts in ((), blocks))
    assert torch.cat(plain).equal(torch.cat(divided))
    torch.testing.assert_close(*(estimate_atoms(atoms, plain, 24, Prior(), parts) for parts in ((), blocks)))


def test_an_entry_without_precision_has_no_effect():
    atoms = [torch.randn(8, 4, generator=rng(6, j), dtype=torch.float64) for j in range(3)]
    noisy = [
        torch.cat([rows, 9 * torch.randn(8, 2, generator=rng(7, j), dtype=torch.float64)], 1)
        for j, rows in enumerate(atoms)
    ]
    blocks = [Block(4, [1.0] * 3), Block(2, [0.0] * 3)]
    assert torch.cat(match_atoms(atoms, Prior(), rng(0))).equal(
        torch.cat(match_atoms(noisy, Prior(), rng(0), blocks=blocks))
    )


def test_the_layers_of_mlp_and_vgg_are_a_chain():
    layers = layer_chain(experiment("dataset=cifar10", "model=vgg9").meta_network().permutation_spec)
    assert [layer.outputs for layer in layers] == [f"conv{i}" for i in range(1, 7)] + ["fc1", "fc2", None]
    assert [layer.inputs for layer in layers[1:]] == [layer.outputs for layer in layers[:-1]]
    assert len(layer_chain(MLP(16, 8, 3, 3, Pan()).permutation_spec)) == 4
    for model in ("resnet20 model.norm=none", "vgg9 model.norm=bn", "vgg9 model.norm=gn8"):
        net = experiment("dataset=cifar10", *f"model={model}".split()).meta_network()
        assert layer_chain(net.permutation_spec) == []


def test_rearrange_permutes_and_leaves_gaps():
    net = network("vgg9", "none", "model.convs='4 M 6 M'", "model.hidden=[5]")
    spec, state = net.permutation_spec, net.state_dict()
    orders = {"conv1": torch.tensor([2, -1, 0, 1]), "conv2": torch.arange(6).masked_fill(torch.arange(6) == 4, -1)}
    moved = rearrange(state, spec, orders)
    assert moved["body.conv1.weight"][0].equal(state["body.conv1.weight"][2])
    assert not moved["body.conv1.weight"][1].any()
    assert not moved["body.conv2.weight"][:, 1].any()
    assert moved["body.conv2.weight"][0, 3].equal(state["body.conv2.weight"][0, 1])
    assert not moved["body.fc1.weight"][:, 4 * 64 : 5 * 64].any()  # the 8x8 map of channel 4
    assert moved["body.fc1.weight"][:, 5 * 64 :].equal(state["body.fc1.weight"][:, 5 * 64 :])
    layer = layer_chain(spec)[2]
    left = count_entries(layer, state, spec, {"conv2": 5, "fc1": 3})
    assert left == 3 * 5 * 64 + 3
    assert incoming_weights(state, layer).shape == (5, 6 * 64 + 1)


@pytest.mark.parametrize("depth", [1, 2])
def test_pfnm_of_shuffled_copies_returns_the_network_up_to_the_prior(depth):
    """Incoming weights and biases are J / (J + 1) of the copies', weights to a logit, of precision 1 in all, a half."""
    net = network("mlp", None, f"model.depth={depth}", "model.width=10")
    spec, state, J = net.permutation_spec, net.state_dict(), 4
    assert can_fuse(spec)
    states = [state, *(permute(state, spec, sample_permutations(spec, 1.0, rng(j))) for j in range(1, J))]
    labels = torch.randint(1, 50, (J, 10), generator=rng(0))
    fused = fuse_pfnm(states, spec, labels, rng(0))
    for name, tensor in fused.items():
        factor = {"head.bias": 1.0, "head.weight": 0.5}.get(name, J / (J + 1))
        torch.testing.assert_close(tensor, state[name] * factor)
