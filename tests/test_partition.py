"""Partitions: every sample once, no empty client, a function of the arguments alone."""

import math
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpan_exp.data import VIRTUAL, PartitionConfig, Split, split
from fedpan_exp.data.partition import PARTITIONERS
from fedpan_exp.federation import Scene
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


def virtual(K: int, alpha: float = 0.1, samples: int = 50, seed: int = 0) -> Split:
    return split(LABELS, PartitionConfig(VIRTUAL, K, alpha, samples=samples), seed)


def test_virtual_clients_draw_their_samples_when_they_are_asked_for():
    started = time.process_time()
    many = virtual(10**9)
    parts = [many.parts[k] for k in (0, 7, 999_999_999)]
    assert time.process_time() - started < 5
    assert [len(part) for part in parts] == [50, 50, 50]
    assert len(many.parts) == 10**9
    assert not torch.equal(parts[0], parts[1])
    with pytest.raises(IndexError):
        many.parts[10**9]


def test_a_virtual_client_does_not_depend_on_the_number_of_clients_but_on_the_seed():
    assert torch.equal(virtual(10).parts[7], virtual(10**6).parts[7])
    assert not torch.equal(virtual(10).parts[7], virtual(10, seed=1).parts[7])


def test_labels_of_virtual_clients_are_dirichlet_distributed():
    """With a small alpha one label each, with a large one all of them equally often; images of a label are uniform."""
    one_label = torch.stack([LABELS[part].bincount(minlength=10) for part in virtual(200, 1e-6).parts])
    assert (one_label.max(1).values == 50).all()
    assert set(one_label.argmax(1).tolist()) == set(range(10))
    even = torch.cat(list(virtual(100, 1e6, samples=1000).parts))
    assert even.unique().numel() == pytest.approx(50_000 * (1 - math.exp(-2)), rel=0.01)  # 100,000 draws
    assert LABELS[even].bincount().tolist() == pytest.approx([10_000] * 10, rel=0.05)


def test_a_round_of_a_million_clients(command):
    """Start-up and memory are measured by `make bench ARGS=many_clients`."""
    overrides = ("dataset=digits", "fl_scene=million", "model.width=16", "fl_scene.H=2", "fl_scene.local_test=0.2")
    result = command(*overrides, "ranks=2")
    assert result.code == 0, result.err
    assert "1,000,000 with 50 to 50 samples, dirichlet_virtual; 10 per round" in result.out
    (run,) = result.runs
    assert (run / "partition.csv").read_text().count("\n") == 1 + 1000


@pytest.mark.parametrize("size", [10, 400_000, 999_999])
def test_cohorts_of_a_million_clients_are_distinct(size):
    scene = Scene(K=10**6, R=size / 10**6, partition=VIRTUAL)
    cohort = scene.sample_cohort(10**6, 1, seed=0)
    assert len(set(cohort)) == len(cohort) == size
    assert 0 <= min(cohort) < max(cohort) < 10**6
    assert cohort == scene.sample_cohort(10**6, 1, seed=0) != scene.sample_cohort(10**6, 2, seed=0)
