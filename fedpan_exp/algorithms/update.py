"""What clients send back, and its weighted mean over the cohort."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedpan_exp.algorithms.stats import CohortStats
from fedpan_exp.training import FlatParameters


@dataclass
class ClientUpdate:
    """What one client sends back. The vectors are the network's own: read them before the next client trains."""

    weights: Tensor
    buffers: Tensor
    aggregation_weight: float  # of this client in the mean; not normalised
    extras: dict[str, Tensor] = field(default_factory=dict)

    @property
    def vectors(self) -> list[Tensor]:
        return [self.weights, self.buffers, *self.extras.values()]

    @property
    def bytes(self) -> int:
        return sum(vector.nbytes for vector in self.vectors)


@dataclass
class CohortUpdate:
    """The weighted mean of a cohort's updates, and what was measured of its clients."""

    weights: Tensor
    buffers: Tensor
    extras: dict[str, Tensor]
    clients: int  # |S|
    stats: CohortStats = field(default_factory=CohortStats)
    models: list[FlatParameters] = field(default_factory=list)  # local models in the cohort's order, where needed


class WeightedSum:
    """A running weighted sum of updates: memory does not grow with the cohort.

    Sums are float64: the products are exact, and the sums almost always. The mean, rounded back to 32 bits, therefore
    does not depend on the order of clients or on the number of processes.
    """

    def __init__(self, like: ClientUpdate):
        self._like = like
        self.vectors = [torch.zeros_like(vector, dtype=_widest(vector.device)) for vector in like.vectors]
        self.weight = 0.0
        self.clients = 0

    def add(self, update: ClientUpdate) -> None:
        for total, vector in zip(self.vectors, update.vectors, strict=True):
            total.add_(vector.to(total.dtype), alpha=update.aggregation_weight)
        self.weight += update.aggregation_weight
        self.clients += 1

    def mean(self) -> CohortUpdate:
        pairs = zip(self.vectors, self._like.vectors, strict=True)
        weights, buffers, *extras = ((total / self.weight).to(vector.dtype) for total, vector in pairs)
        return CohortUpdate(weights, buffers, dict(zip(self._like.extras, extras, strict=True)), self.clients)


def _widest(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64  # Apple's GPUs have no 64-bit floats
