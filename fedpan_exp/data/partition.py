"""Split the training set over clients: from labels [N] to one index vector per client."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedpan_exp.system.console import counted
from fedpan_exp.system.errors import ConfigError, require
from fedpan_exp.system.rng import numpy_rng

VIRTUAL = "dirichlet_virtual"
CACHED_PARTS = 1_000  # of virtual clients: those of a few rounds
MAX_DRAWS = 10  # attempts at a split with enough samples per client; the last one is repaired


@dataclass
class Split:
    """Sample indices per client, and what was done about clients with too few samples."""

    parts: Sequence[Tensor]
    redraws: int = 0
    moved: int = 0  # samples moved to clients that had too few
    dropped: int = 0  # clients removed because they had too few

    @property
    def sizes(self) -> list[int]:
        """Number of samples per client."""
        return sizes(self.parts)


@dataclass
class PartitionConfig:
    """Settings of a split, documented in conf/fl_scene."""

    kind: str
    K: int  # 0: one client per user
    alpha: float = 0.1
    shards: int = 2
    min_samples: int = 5
    small_clients: str = "repair"
    samples: int = 50  # per client, with dirichlet_virtual


def split(labels: Tensor, config: PartitionConfig, seed: int, users: Tensor | None = None) -> Split:
    """Assign every sample to exactly one client, except those of clients that are dropped as too small.

    Virtual clients draw their samples independently instead. The result is a function of the arguments alone.
    """
    targets = labels.numpy()
    if config.kind == VIRTUAL:
        return Split(VirtualParts(targets, config, seed))
    if config.kind == "natural":
        return Split(_by_user(users, config.K))
    max_clients = len(targets) // config.min_samples
    limit = f"{len(targets):,} samples, at least fl_scene.min_samples={config.min_samples} per client"
    require(max_clients >= config.K, "fl_scene.K", f"at most {max_clients:,} ({limit})", config.K)

    drop = config.small_clients == "drop"
    partition = PARTITIONERS[config.kind]
    for redraws in range(1 if drop else MAX_DRAWS):
        parts = _checked(partition(targets, config, numpy_rng(seed, "partition", redraws)), config, len(targets))
        if min(map(len, parts)) >= config.min_samples:
            break
    if drop:
        large = [part for part in parts if len(part) >= config.min_samples]
        rule = f"small enough that some client gets {config.min_samples} samples"
        require(bool(large), "fl_scene.K", rule, config.K)
        return Split(_tensors(large), dropped=len(parts) - len(large))
    moved = _top_up(parts, config.min_samples, numpy_rng(seed, "partition", "repair"))
    return Split(_tensors(parts), redraws, moved)


Parts = list[np.ndarray]


def _dirichlet(labels: np.ndarray, config: PartitionConfig, rng: np.random.Generator) -> Parts:
    """Draw a label distribution per client, then divide each class in proportion: client sizes stay nearly equal."""
    return _allocate(labels, _dirichlet_rows(config.alpha, config.K, _num_classes(labels), rng), rng)


def _dirichlet_class(labels: np.ndarray, config: PartitionConfig, rng: np.random.Generator) -> Parts:
    """Draw a distribution over clients per class: client sizes differ widely."""
    return _allocate(labels, _dirichlet_rows(config.alpha, _num_classes(labels), config.K, rng).T, rng)


def _dirichlet_balanced(labels: np.ndarray, config: PartitionConfig, rng: np.random.Generator) -> Parts:
    """Like dirichlet_class, but a client that has N/K samples gets no further class (FedMA; Wang et al., ICLR 2020)."""
    weights = _dirichlet_rows(config.alpha, _num_classes(labels), config.K, rng)
    sizes = np.zeros(config.K)
    for row, count in zip(weights, np.unique(labels, return_counts=True)[1], strict=True):
        is_open = sizes * config.K < len(labels)  # at least one: fewer than N samples are assigned
        row *= is_open
        if row.sum() == 0:  # the draw was for full clients alone
            row += is_open
        sizes += np.diff(_cuts(row, count), prepend=0, append=count)
    return _allocate(labels, weights.T, rng)


def _iid(labels: np.ndarray, config: PartitionConfig, rng: np.random.Generator) -> Parts:
    return np.array_split(rng.permutation(len(labels)), config.K)


def _shards(labels: np.ndarray, config: PartitionConfig, rng: np.random.Generator) -> Parts:
    """Sort by label, cut into equal shards, give each client `shards` of them (McMahan et al., 2017)."""
    num_shards = config.K * config.shards
    require(num_shards <= len(labels), "fl_scene.shards", f"at most {len(labels) // config.K}", config.shards)
    by_label = rng.permutation(len(labels))
    by_label = by_label[np.argsort(labels[by_label], kind="stable")]
    shards = np.array_split(by_label, num_shards)
    assignment = rng.permutation(num_shards).reshape(config.K, config.shards)
    return [np.concatenate([shards[i] for i in row]) for row in assignment]


PARTITIONERS: dict[str, Callable[[np.ndarray, PartitionConfig, np.random.Generator], Parts]] = {
    "dirichlet": _dirichlet,
    "dirichlet_class": _dirichlet_class,
    "dirichlet_balanced": _dirichlet_balanced,
    "iid": _iid,
    "shards": _shards,
}


def kinds() -> list[str]:
    """The names of all partitions, also those of plugins."""
    return [*PARTITIONERS, VIRTUAL, "natural", "file"]


class VirtualParts(Sequence[Tensor]):
    """Any number of clients, each of which draws its samples when they are asked for.

    A client draws its label distribution from the Dirichlet distribution, then each sample's label from that, then an
    image of this label. Draws are independent: clients may have images in common, and their number is not limited.
    """

    def __init__(self, labels: np.ndarray, config: PartitionConfig, seed: int):
        self.samples, self._clients, self._alpha, self._seed = config.samples, config.K, config.alpha, seed
        self._by_label = np.argsort(labels, kind="stable")
        self._label_sizes = np.unique(labels, return_counts=True)[1]
        self._cached = lru_cache(CACHED_PARTS)(self._draw)

    def __len__(self) -> int:
        return self._clients

    def __getitem__(self, k: int) -> Tensor:  # type: ignore[override]
        if not 0 <= k < self._clients:
            raise IndexError(k)
        return self._cached(k)

    def _draw(self, k: int) -> Tensor:
        rng = numpy_rng(self._seed, "partition", VIRTUAL, k)
        (distribution,) = _dirichlet_rows(self._alpha, 1, len(self._label_sizes), rng)
        drawn = rng.choice(len(self._label_sizes), self.samples, p=distribution)
        within = rng.integers(self._label_sizes[drawn])
        first = np.cumsum(self._label_sizes) - self._label_sizes
        return torch.from_numpy(np.sort(self._by_label[first[drawn] + within]))


def sizes(parts: Sequence[Tensor]) -> list[int]:
    """Number of samples per client; virtual clients need not draw them for that."""
    return [parts.samples] * len(parts) if isinstance(parts, VirtualParts) else [len(part) for part in parts]


def _by_user(users: Tensor | None, K: int) -> list[Tensor]:
    if users is None:
        raise ConfigError("fl_scene.partition must be other than natural for a dataset without user ids")
    ids = users.unique()
    require(K in (0, len(ids)), "fl_scene.K", f"{len(ids)}, the number of users in the dataset, or 0", K)
    return [torch.where(users == user)[0] for user in ids]


def _dirichlet_rows(alpha: float, rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """Draw [rows, columns]: each row is a sample of the symmetric Dirichlet distribution."""
    probabilities = rng.dirichlet(np.full(columns, alpha), rows)
    invalid = ~np.isfinite(probabilities).all(axis=1)  # alpha near 0 underflows: in the limit a row is one-hot
    probabilities[invalid] = np.eye(columns)[rng.integers(columns, size=invalid.sum())]
    return probabilities


def _allocate(labels: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> Parts:
    """Divide the samples of each class among the clients in proportion to its column of weights [K, classes]."""
    samples, owners = [], []
    for label, column in zip(np.unique(labels), weights.T, strict=True):
        members = rng.permutation(np.flatnonzero(labels == label))
        samples.append(members)
        owners.append(np.searchsorted(_cuts(column, len(members)), np.arange(len(members)), side="right"))
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")  # one sort is faster than a slice per class and client
    return np.split(np.concatenate(samples)[order], np.searchsorted(owner[order], np.arange(1, len(weights))))


def _cuts(weights: np.ndarray, count: int) -> np.ndarray:
    """Where to cut `count` samples into one piece per client, in proportion to the weights [K]."""
    total = weights.sum()
    fractions = weights / total if total > 0 else np.full(len(weights), 1 / len(weights))  # a class no client drew
    return np.rint(fractions.cumsum()[:-1] * count).astype(int)


def _checked(parts: Any, config: PartitionConfig, samples: int) -> Parts:
    """Require every sample at one client: a partition may be a plugin's."""
    rule = f"fl_scene.partition={config.kind} must return {config.K} arrays of indices"
    try:
        arrays = [np.asarray(part) for part in parts]
        indices = np.concatenate(arrays)
    except (TypeError, ValueError):
        raise ConfigError(f"{rule}, got {type(parts).__name__}") from None
    if len(arrays) != config.K or indices.dtype.kind not in "iu":
        raise ConfigError(f"{rule}, got {len(arrays)} of {indices.dtype}")
    if not np.array_equal(np.sort(indices), np.arange(samples)):
        missing = samples - len(np.unique(indices))
        raise ConfigError(
            f"{rule} with every sample once, got {len(indices):,} indices, and {counted(missing, 'sample')} missing"
        )
    return arrays


def _top_up(parts: Parts, minimum: int, rng: np.random.Generator) -> int:
    """Move samples from the largest clients to those below the minimum, in place; return the number moved."""
    moved, sizes = 0, np.array([len(part) for part in parts])
    for receiver in np.argsort(sizes, kind="stable"):
        while sizes[receiver] < minimum:
            donor = sizes.argmax()
            count = min(minimum - sizes[receiver], sizes[donor] - minimum)
            shuffled = rng.permutation(parts[donor])
            parts[receiver] = np.concatenate([parts[receiver], shuffled[:count]])
            parts[donor] = shuffled[count:]
            sizes[receiver] += count
            sizes[donor] -= count
            moved += int(count)
    return moved


def _num_classes(labels: np.ndarray) -> int:
    return len(np.unique(labels))


def _tensors(parts: Parts) -> list[Tensor]:
    return [torch.from_numpy(np.sort(part)) for part in parts]
