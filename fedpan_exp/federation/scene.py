"""The federated scene: settings named by the paper's letters."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

import torch

from fedpan_exp.data import PartitionConfig, file_hash, kinds
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.system.rng import rng

LARGEST_PERMUTATION = 200_000  # clients; to permute more would take longer than to train some of them
FILE_RULE = "the file of the split with fl_scene.partition=file, else null"


@dataclass
class Scene:
    """Clients, rounds, local work and the split of the data; conf/fl_scene documents each setting."""

    K: int = 100
    R: float = 0.1
    E: float = 5
    steps: int | None = None
    H: int = 30
    alpha: float = 0.1
    B: int = 64
    partition: str = "dirichlet"
    file: str | None = None
    shards: int = 2
    samples: int = 50
    min_samples: int = 5
    small_clients: str = "repair"
    local_test: float = 0.0
    reserve: float = 0.0
    averaging: str = "uniform"
    bn_statistics: str = "average"
    client_memory: str = "memory"

    def __post_init__(self) -> None:
        require_choice("fl_scene.partition", self.partition, kinds())
        require((self.partition == "file") == bool(self.file), "fl_scene.file", FILE_RULE, self.file)
        self._pin_file()
        fewest = 0 if self.partition == "natural" else 1  # 0: as many as there are users
        require(fewest <= self.K, "fl_scene.K", f"at least {fewest}", self.K)
        for letter in ("H", "B"):
            value = getattr(self, letter)
            require(value >= 1, f"fl_scene.{letter}", "at least 1", value)
        require(0 < self.E < math.inf, "fl_scene.E", "above 0", self.E)
        require(self.steps is None or self.steps >= 1, "fl_scene.steps", "at least 1, or null", self.steps)
        require(0 < self.R <= 1, "fl_scene.R", "in (0, 1]", self.R)
        require(0 < self.alpha <= 1e6 and math.isfinite(self.alpha), "fl_scene.alpha", "in (0, 1e6]", self.alpha)
        require(self.shards >= 1, "fl_scene.shards", "at least 1", self.shards)
        require(self.samples >= 1, "fl_scene.samples", "at least 1", self.samples)
        require(self.min_samples >= 1, "fl_scene.min_samples", "at least 1", self.min_samples)
        require_choice("fl_scene.small_clients", self.small_clients, ("repair", "drop"))
        require(0 <= self.local_test < 1, "fl_scene.local_test", "in [0, 1)", self.local_test)
        require(0 <= self.reserve < 1, "fl_scene.reserve", "in [0, 1)", self.reserve)
        require_choice("fl_scene.averaging", self.averaging, ("uniform", "by_samples"))
        require_choice("fl_scene.bn_statistics", self.bn_statistics, ("average", "keep", "reset"))
        require_choice("fl_scene.client_memory", self.client_memory, ("memory", "disk"))

    def _pin_file(self) -> None:
        """Append a hash of the content to the file's name: split.json@3f2ab1c0. A hash that is given must match."""
        if self.file:
            pinned = re.fullmatch(r"(.+)@([0-9a-f]{8})", self.file)
            path, expected = (pinned[1], pinned[2]) if pinned else (self.file, "")
            content = file_hash(Path(path).expanduser())
            require(expected in ("", content), "fl_scene.file", f"{path}@{content}, its content", self.file)
            self.file = f"{path}@{content}"

    @property
    def split_file(self) -> Path | None:
        return Path(self.file.rpartition("@")[0]).expanduser() if self.file else None

    def partition_config(self) -> PartitionConfig:
        return PartitionConfig(
            self.partition, self.K, self.alpha, self.shards, self.min_samples, self.small_clients, self.samples
        )

    def local_samples(self, samples: float) -> float:
        """How many samples a client with `samples` samples trains on in a round, repeated ones included."""
        return self.steps * min(self.B, samples) if self.steps else self.E * samples

    def cohort_size(self, clients: int) -> int:
        """The number of clients per round."""
        return max(1, round(self.R * clients))

    def sample_cohort(self, clients: int, round_idx: int, seed: int) -> list[int]:
        """The clients of a round: the same for every algorithm, model and PAN setting."""
        size, generator = self.cohort_size(clients), rng(seed, "clients", round_idx)
        if clients <= LARGEST_PERMUTATION or size > clients // 2:
            return torch.randperm(clients, generator=generator)[:size].tolist()
        chosen: dict[int, None] = {}  # in the order drawn
        while len(chosen) < size:
            chosen |= dict.fromkeys(torch.randint(clients, (size - len(chosen),), generator=generator).tolist())
        return list(chosen)

    def aggregation_weight(self, samples: int) -> float:
        """The weight of a client with `samples` samples in the mean over the cohort."""
        return samples if self.averaging == "by_samples" else 1.0
