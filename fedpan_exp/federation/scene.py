"""The federated scene: settings named by the paper's letters."""

import math
from dataclasses import dataclass

import torch

from fedpan_exp.data import PartitionConfig, kinds
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.system.rng import rng


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
    shards: int = 2
    min_samples: int = 5
    small_clients: str = "repair"
    local_test: float = 0.0
    reserve: float = 0.0
    averaging: str = "uniform"
    bn_statistics: str = "average"
    client_memory: str = "memory"

    def __post_init__(self) -> None:
        require_choice("fl_scene.partition", self.partition, kinds())
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
        require(self.min_samples >= 1, "fl_scene.min_samples", "at least 1", self.min_samples)
        require_choice("fl_scene.small_clients", self.small_clients, ("repair", "drop"))
        require(0 <= self.local_test < 1, "fl_scene.local_test", "in [0, 1)", self.local_test)
        require(0 <= self.reserve < 1, "fl_scene.reserve", "in [0, 1)", self.reserve)
        require_choice("fl_scene.averaging", self.averaging, ("uniform", "by_samples"))
        require_choice("fl_scene.bn_statistics", self.bn_statistics, ("average", "keep", "reset"))
        require_choice("fl_scene.client_memory", self.client_memory, ("memory", "disk"))

    def partition_config(self) -> PartitionConfig:
        return PartitionConfig(self.partition, self.K, self.alpha, self.shards, self.min_samples, self.small_clients)

    def local_samples(self, samples: float) -> float:
        """How many samples a client with `samples` samples trains on in a round, repeated ones included."""
        return self.steps * min(self.B, samples) if self.steps else self.E * samples

    def cohort_size(self, clients: int) -> int:
        """The number of clients per round."""
        return max(1, round(self.R * clients))

    def sample_cohort(self, clients: int, round_idx: int, seed: int) -> list[int]:
        """The clients of a round: the same for every algorithm, model and PAN setting."""
        order = torch.randperm(clients, generator=rng(seed, "clients", round_idx))
        return order[: self.cohort_size(clients)].tolist()

    def aggregation_weight(self, samples: int) -> float:
        """The weight of a client with `samples` samples in the mean over the cohort."""
        return samples if self.averaging == "by_samples" else 1.0
