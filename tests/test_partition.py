"""Partitions: every sample once, no empty client, a function of the arguments alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpan_exp.data import PartitionConfig, split
from fedpan_exp.data.partition import PARTITIONERS
from fedpan_exp.system.errors import ConfigError

LABELS = torch.arange(50_000) % 10  # CIFAR-10's class counts


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(PARTITIONERS)),
    K=st.integers(1, 30),
    alpha=st.floats(1e-6, 1e6),
    classes=st.integers(1, 12),
    seed=st.integers(0, 10_000),
)
def test_every_sample_goes_to_exactly_one_client(kind, K, alpha, classes, seed):
    labels = torch.arange(400) ** 2 % classes
    parts = split(labels, PartitionConfig(kind, K, alpha), seed).parts
    assert len(parts) == K
    assert min(map(len, parts)) >= 5
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(400))


def test_client_sizes_are_similar_with_dirichlet_and_differ_with_dirichlet_class():
    similar = [len(part) for part in split(LABELS, PartitionConfig("dirichlet", 100, 0.1), 0).parts]
    different = [len(part) for part in split(LABELS, PartitionConfig("dirichlet_class", 100, 0.1), 0).parts]
    assert 250 < min(similar) < 450
    assert 600 < max(similar) < 1000
    assert min(different) < 100
    assert max(different) > 1500


def test_dirichlet_balanced_gives_no_more_classes_to_clients_with_their_fair_share():
    """A client has at most N/K samples and one class more; without the cap, the largest has several times as many."""
    parts = split(LABELS, PartitionConfig("dirichlet_balanced", 16, 0.5), 0).parts
    fair = len(LABELS) / 16
    for part in parts:
        counts = LABELS[part].bincount(minlength=10)
        last = counts.nonzero().max()
        assert counts[:last].sum() < fair
    capped, free = (
        max(len(part) for part in split(LABELS, PartitionConfig(kind, 16, 0.1), 0).parts)
        for kind in ("dirichlet_balanced", "dirichlet_class")
    )
    assert capped < free


def test_dirichlet_balanced_by_hand():
    """alpha near 0 gives each class to one client. Two clients, two classes: the second class goes to the other one."""
    labels = torch.tensor([0] * 20 + [1] * 20)
    for seed in range(5):
        parts = split(labels, PartitionConfig("dirichlet_balanced", 2, 1e-6), seed).parts
        assert sorted(part.tolist() for part in parts) == [list(range(20)), list(range(20, 40))]


def test_smaller_alpha_means_fewer_labels_per_client():
    def effective_labels(alpha):
        parts = split(LABELS, PartitionConfig("dirichlet", 50, alpha), 0).parts
        frequencies = torch.stack([LABELS[part].bincount(minlength=10) / len(part) for part in parts])
        return (1 / (frequencies**2).sum(1)).mean().item()

    few, some, many = (effective_labels(alpha) for alpha in (0.05, 1.0, 100.0))
    assert few < 3 < some < 8 < many


def test_iid_and_shards():
    assert {len(part) for part in split(LABELS, PartitionConfig("iid", 100), 0).parts} == {500}
    shards = split(LABELS, PartitionConfig("shards", 100, shards=2), 0).parts
    assert max(len(LABELS[part].unique()) for part in shards) == 2


def test_natural_clients_are_the_users():
    users = torch.tensor([7, 3, 7, 9, 3, 7])
    parts = split(torch.zeros(6).long(), PartitionConfig("natural", 3), 0, users).parts
    assert [part.tolist() for part in parts] == [[1, 4], [0, 2, 5], [3]]
    with pytest.raises(ConfigError, match=r"fl_scene.K must be 3, the number of users"):
        split(torch.zeros(6).long(), PartitionConfig("natural", 4), 0, users)
    with pytest.raises(ConfigError, match="for a dataset without user ids"):
        split(torch.zeros(6).long(), PartitionConfig("natural", 3), 0)


def test_a_split_does_not_depend_on_earlier_draws():
    first = split(LABELS, PartitionConfig("dirichlet", 20), seed=3).parts
    split(LABELS, PartitionConfig("iid", 7), seed=4)
    torch.manual_seed(99)
    again = split(LABELS, PartitionConfig("dirichlet", 20), seed=3).parts
    other = split(LABELS, PartitionConfig("dirichlet", 20), seed=4).parts
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_small_clients_are_topped_up_or_dropped():
    labels = torch.arange(300) % 3
    repaired = split(labels, PartitionConfig("dirichlet_class", 50, 0.05), 0)
    assert min(map(len, repaired.parts)) == 5
    assert repaired.moved > 0
    dropped = split(labels, PartitionConfig("dirichlet_class", 50, 0.05, small_clients="drop"), 0)
    assert dropped.dropped > 0
    assert len(dropped.parts) == 50 - dropped.dropped
    assert min(map(len, dropped.parts)) >= 5


def test_too_many_clients_for_the_samples():
    with pytest.raises(ConfigError, match=r"fl_scene.K must be at most 10,000 \(50,000 samples"):
        split(LABELS, PartitionConfig("iid", 10_001), 0)
