"""The federated algorithm: hooks, whose defaults are FedAvg."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fedpan_exp.training.flat import FlatNet


@dataclass
class Server:
    """Everything that travels from round to round."""

    weights: Tensor
    buffers: Tensor  # BatchNorm statistics
    clients: int  # K
    memory: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class Visit:
    """One client's part of one round."""

    server: Server
    memory: dict[str, Tensor]  # what this client keeps until its next visit
    samples: int
    travel: float = 0.0  # how far the steps would have moved the weights under a constant gradient of 1
    desk: dict[str, Any] = field(default_factory=dict)  # what the algorithm needs at hand during the visit


@dataclass
class Upload:
    """What a client sends back. The vectors are the network's own: read them before the next client trains."""

    weights: Tensor
    buffers: Tensor
    share: float  # its part in the mean, in any unit
    extra: dict[str, Tensor] = field(default_factory=dict)
    clients: int = 1  # more: it is a mean itself, and speaks for so many

    @property
    def bytes(self) -> int:
        return sum(vector.nbytes for vector in (self.weights, self.buffers, *self.extra.values()))


@dataclass
class FedAvg:
    """Average the local weights (McMahan et al., AISTATS 2017). Settings only, no state: also the config schema."""

    name: str = "fedavg"

    @property
    def decay(self) -> float:
        """Pull of the local weights toward 0, beside training.weight_decay."""
        return 0.0

    def start(self, server: Server) -> None:
        """Prepare the server's memory before the first round."""

    def download(self, server: Server) -> list[Tensor]:
        """What a client of the round is sent."""
        return [server.weights, server.buffers]

    def begin(self, net: FlatNet, visit: Visit) -> None:
        """Lay out on the visit's desk what its steps will need."""

    def loss(self, net: FlatNet, x: Tensor, y: Tensor, visit: Visit) -> Tensor:
        return F.cross_entropy(net(x), y)

    def adjust_gradient(self, net: FlatNet, visit: Visit) -> None:
        """Change the parameters' gradients between backward and the optimizer's step."""

    def finish(self, net: FlatNet, visit: Visit) -> dict[str, Tensor]:
        """Update the client's memory; return what to upload beside the weights."""
        return {}

    def aggregate(self, server: Server, uploads: Iterable[Upload]) -> None:
        """Take the uploads as they come in, one at a time, and move the server."""
        mean = average(uploads)
        server.weights, server.buffers = mean.weights, mean.buffers


@dataclass
class Mean:
    weights: Tensor
    buffers: Tensor
    extra: dict[str, Tensor]
    clients: int = 0  # |S|
    shares: float = 0.0


def average(uploads: Iterable[Upload]) -> Mean:
    """The mean of uploads by their shares, as a running sum: memory does not grow with the clients of a round."""
    mean: Mean | None = None
    for upload in uploads:
        if mean is None:
            zeros = {name: torch.zeros_like(vector) for name, vector in upload.extra.items()}
            mean = Mean(torch.zeros_like(upload.weights), torch.zeros_like(upload.buffers), zeros)
        mean.clients += upload.clients
        mean.shares += upload.share
        mean.weights.add_(upload.weights, alpha=upload.share)
        mean.buffers.add_(upload.buffers, alpha=upload.share)
        for name, vector in upload.extra.items():
            mean.extra[name].add_(vector, alpha=upload.share)
    assert mean is not None, "a round has at least one client"
    for vector in (mean.weights, mean.buffers, *mean.extra.values()):
        vector.div_(mean.shares)
    return mean
