"""Statistics of a cohort's local training."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from fedpan_exp.training import FitResult


class LocalAccuracy(NamedTuple):
    """A client's accuracy on its own held-out samples, before and after its local training."""

    before: float
    after: float
    samples: int


class Drift:
    """How far clients end from each other: the root mean square of |w_k - mean w|, as running sums."""

    def __init__(self) -> None:
        self.delta_sum: Tensor | None = None
        self.squared_norms: Tensor | float = 0.0
        self.clients = 0

    def add(self, delta: Tensor) -> None:
        """Add one client's w_k - w_server; takes ownership of `delta`, which later calls modify in place."""
        self.delta_sum = delta if self.delta_sum is None else self.delta_sum.add_(delta)
        self.squared_norms += delta.dot(delta)
        self.clients += 1

    def value(self) -> float:
        assert self.delta_sum is not None, "a cohort has at least one client"
        mean = self.delta_sum / self.clients
        return math.sqrt(max(0.0, float(self.squared_norms / self.clients - mean.dot(mean))))


@dataclass
class CohortStats:
    """Measurements of one round: one per client, or sums over the clients."""

    fits: list[FitResult] = field(default_factory=list)  # in the cohort's order
    local_accuracies: list[LocalAccuracy] = field(default_factory=list)  # of clients with held-out samples
    drift: Drift = field(default_factory=Drift)
    up_bytes: int = 0
    down_bytes: int = 0
    seconds: float = 0.0  # of local training, summed over clients

    def metrics(self) -> dict[str, float]:
        samples = sum(fit.samples for fit in self.fits)
        values = {
            "train/loss": sum(fit.loss * fit.samples for fit in self.fits) / samples,
            "train/samples": samples,
            "train/steps": sum(fit.steps for fit in self.fits),
            "clients/divergence": self.drift.value(),
            "comm/up_bytes": self.up_bytes,
            "comm/down_bytes": self.down_bytes,
            "time/local_s": self.seconds,
        }
        tested = sum(local.samples for local in self.local_accuracies)
        if tested:
            values["local/pre_acc"] = sum(local.before * local.samples for local in self.local_accuracies) / tested
            values["local/post_acc"] = sum(local.after * local.samples for local in self.local_accuracies) / tested
        return values
