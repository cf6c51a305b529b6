"""What clients send back, and its mean."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Upload:
    """What a client sends back. The vectors are the network's own: read them before the next client trains."""

    weights: Tensor
    buffers: Tensor
    share: float  # its part in the mean, in any unit
    extra: dict[str, Tensor] = field(default_factory=dict)
    clients: int = 1  # more: it is a mean itself, and speaks for so many

    @property
    def vectors(self) -> list[Tensor]:
        return [self.weights, self.buffers, *self.extra.values()]

    @property
    def bytes(self) -> int:
        return sum(vector.nbytes for vector in self.vectors)


class Total:
    """A running sum of uploads by their shares: memory does not grow with the clients of a round.

    In 64 bits, where a share times a weight of 32 bits is exact and so, nearly always, is their sum: the order in which
    clients were added, and on how many ranks, is not seen in the mean, to the last of its 32 bits.
    """

    def __init__(self, like: Upload):
        self._like = like
        self.vectors = [torch.zeros_like(vector, dtype=_widest(vector.device)) for vector in like.vectors]
        self.shares = 0.0
        self.clients = 0  # |S|

    def add(self, upload: Upload) -> None:
        for total, vector in zip(self.vectors, upload.vectors, strict=True):
            total.add_(vector.to(total.dtype), alpha=upload.share)
        self.shares += upload.share
        self.clients += upload.clients

    def mean(self) -> Upload:
        like = zip(self.vectors, self._like.vectors, strict=True)
        weights, buffers, *extra = ((total / self.shares).to(vector.dtype) for total, vector in like)
        return Upload(weights, buffers, 1.0, dict(zip(self._like.extra, extra, strict=True)), self.clients)


def add_up(uploads: Iterable[Upload]) -> Total:
    total: Total | None = None
    for upload in uploads:
        total = total or Total(like=upload)
        total.add(upload)
    assert total, "a round has at least one client"
    return total


def average(uploads: Iterable[Upload]) -> Upload:
    return add_up(uploads).mean()


def _widest(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64  # Apple's GPUs have no more
