"""What clients send back, and its mean."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class ClientUpdate:
    """What a client sends back. The vectors are the network's own: read them before the next client trains."""

    weights: Tensor
    buffers: Tensor
    weight: float  # its part in the mean, in any unit
    extra: dict[str, Tensor] = field(default_factory=dict)
    clients: int = 1  # more: it is a mean itself, and speaks for so many

    @property
    def vectors(self) -> list[Tensor]:
        return [self.weights, self.buffers, *self.extra.values()]

    @property
    def bytes(self) -> int:
        return sum(vector.nbytes for vector in self.vectors)


class WeightedSum:
    """A running sum of uploads by their shares: memory does not grow with the clients of a round.

    In 64 bits, where a share times a weight of 32 bits is exact and so, nearly always, is their sum: the order in which
    clients were added, and on how many ranks, is not seen in the mean, to the last of its 32 bits.
    """

    def __init__(self, like: ClientUpdate):
        self._like = like
        self.vectors = [torch.zeros_like(vector, dtype=_widest(vector.device)) for vector in like.vectors]
        self.weights_total = 0.0
        self.clients = 0  # |S|

    def add(self, update: ClientUpdate) -> None:
        for total, vector in zip(self.vectors, update.vectors, strict=True):
            total.add_(vector.to(total.dtype), alpha=update.weight)
        self.weights_total += update.weight
        self.clients += update.clients

    def mean(self) -> ClientUpdate:
        like = zip(self.vectors, self._like.vectors, strict=True)
        weights, buffers, *extra = ((total / self.weights_total).to(vector.dtype) for total, vector in like)
        return ClientUpdate(weights, buffers, 1.0, dict(zip(self._like.extra, extra, strict=True)), self.clients)


def add_up(updates: Iterable[ClientUpdate]) -> WeightedSum:
    total: WeightedSum | None = None
    for update in updates:
        total = total or WeightedSum(like=update)
        total.add(update)
    assert total, "a round has at least one client"
    return total


def average(updates: Iterable[ClientUpdate]) -> ClientUpdate:
    return add_up(updates).mean()


def _widest(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64  # Apple's GPUs have no more
