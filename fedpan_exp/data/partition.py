"""How the training set is split over clients: labels in, one index vector a client out; pure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedpan_exp.system.errors import ConfigError, require
from fedpan_exp.system.rng import numpy_rng

REDRAWS = 10  # a draw that leaves a client too little is drawn again this often, then repaired


@dataclass
class Split:
    """The clients' sample indices, and what it took to get them."""

    parts: list[Tensor]
    redraws: int = 0
    moved: int = 0  # samples given to clients that had too few
    dropped: int = 0  # clients left out because they had too few


@dataclass
class PartitionConfig:
    """The settings of a split; their meaning is documented in conf/fl_scene."""

    kind: str
    K: int  # 0: as many as there are users
    alpha: float = 0.1
    shards: int = 2
    min_samples: int = 5
    small_clients: str = "repair"


def split(labels: Tensor, rule: PartitionConfig, seed: int, users: Tensor | None = None) -> Split:
    """Every sample goes to exactly one client (unless small clients are dropped); depends on nothing else."""
    samples = labels.numpy()
    if rule.kind == "natural":
        return Split(_by_user(users, rule.K))
    most = len(samples) // rule.min_samples
    why = f"at most {most:,} ({len(samples):,} samples, at least fl_scene.min_samples={rule.min_samples} a client)"
    require(most >= rule.K, "fl_scene.K", why, rule.K)

    drop = rule.small_clients == "drop"
    draw = DRAWS[rule.kind]
    for redraws in range(1 if drop else REDRAWS):
        parts = draw(samples, rule, numpy_rng(seed, "partition", redraws))
        if min(map(len, parts)) >= rule.min_samples:
            break
    if drop:
        kept = [part for part in parts if len(part) >= rule.min_samples]
        require(bool(kept), "fl_scene.K", f"such that a client gets {rule.min_samples} samples", rule.K)
        return Split(_tensors(kept), dropped=len(parts) - len(kept))
    moved = _top_up(parts, rule.min_samples, numpy_rng(seed, "partition", "repair"))
    return Split(_tensors(parts), redraws, moved)


Parts = list[np.ndarray]


def _dirichlet(labels: np.ndarray, rule: PartitionConfig, rng: np.random.Generator) -> Parts:
    """A label mix per client, then each class shared out in proportion: sizes stay near equal."""
    return _share_out(labels, _mixes(rule.alpha, rule.K, _classes(labels), rng), rng)


def _dirichlet_class(labels: np.ndarray, rule: PartitionConfig, rng: np.random.Generator) -> Parts:
    """A mix of clients per class: sizes differ widely."""
    return _share_out(labels, _mixes(rule.alpha, _classes(labels), rule.K, rng).T, rng)


def _iid(labels: np.ndarray, rule: PartitionConfig, rng: np.random.Generator) -> Parts:
    return np.array_split(rng.permutation(len(labels)), rule.K)


def _shards(labels: np.ndarray, rule: PartitionConfig, rng: np.random.Generator) -> Parts:
    """Sort by label, cut into equal shards, deal each client `shards` of them (McMahan et al., 2017)."""
    pieces = rule.K * rule.shards
    require(pieces <= len(labels), "fl_scene.shards", f"at most {len(labels) // rule.K}", rule.shards)
    by_label = rng.permutation(len(labels))
    by_label = by_label[np.argsort(labels[by_label], kind="stable")]
    cut = np.array_split(by_label, pieces)
    return [np.concatenate([cut[i] for i in hand]) for hand in rng.permutation(pieces).reshape(rule.K, rule.shards)]


DRAWS: dict[str, Callable[[np.ndarray, PartitionConfig, np.random.Generator], Parts]] = {
    "dirichlet": _dirichlet,
    "dirichlet_class": _dirichlet_class,
    "iid": _iid,
    "shards": _shards,
}
KINDS = (*DRAWS, "natural")


def _by_user(users: Tensor | None, K: int) -> list[Tensor]:
    if users is None:
        raise ConfigError("fl_scene.partition must be other than natural for a dataset that does not know its users")
    names = users.unique()
    require(K in (0, len(names)), "fl_scene.K", f"{len(names)}, the number of users in the dataset, or 0", K)
    return [torch.where(users == name)[0] for name in names]


def _mixes(alpha: float, rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    mixes = rng.dirichlet(np.full(columns, alpha), rows)
    broken = ~np.isfinite(mixes).all(axis=1)  # alpha near 0 underflows: the limit is all in one place
    mixes[broken] = np.eye(columns)[rng.integers(columns, size=broken.sum())]
    return mixes


def _share_out(labels: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> Parts:
    """Deal the samples of each class to the clients in proportion to its column of shares[K, C]."""
    dealt, owners = [], []
    for label, column in zip(np.unique(labels), shares.T, strict=True):
        total = column.sum()
        column = column / total if total > 0 else np.full(len(column), 1 / len(column))  # a class nobody drew
        members = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.rint(column.cumsum()[:-1] * len(members)).astype(int)
        dealt.append(members)
        owners.append(np.searchsorted(cuts, np.arange(len(members)), side="right"))
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")  # one sort for all: a slice a class and client would be a million
    return np.split(np.concatenate(dealt)[order], np.searchsorted(owner[order], np.arange(1, len(shares))))


def _top_up(parts: Parts, minimum: int, rng: np.random.Generator) -> int:
    """Give clients below the minimum samples of the largest; in place. Returns how many moved."""
    moved, sizes = 0, np.array([len(part) for part in parts])
    for poor in np.argsort(sizes, kind="stable"):
        while sizes[poor] < minimum:
            rich = sizes.argmax()
            count = min(minimum - sizes[poor], sizes[rich] - minimum)
            given = rng.permutation(parts[rich])
            parts[poor] = np.concatenate([parts[poor], given[:count]])
            parts[rich] = given[count:]
            sizes[poor] += count
            sizes[rich] -= count
            moved += int(count)
    return moved


def _classes(labels: np.ndarray) -> int:
    return len(np.unique(labels))


def _tensors(parts: Parts) -> list[Tensor]:
    return [torch.from_numpy(np.sort(part)) for part in parts]
