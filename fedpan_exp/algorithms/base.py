"""The federated algorithm: five hooks, whose defaults are FedAvg."""

from collections.abc import Iterable
from dataclasses import dataclass, field

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
    steps: int = 0
    lr_sum: float = 0.0  # the learning rates of the steps, added up


@dataclass
class Upload:
    """What a client sends back. The vectors are the network's own: read them before the next client trains."""

    weights: Tensor
    buffers: Tensor
    share: float  # its part in the mean, in any unit
    extra: dict[str, Tensor] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(t.nbytes for t in (self.weights, self.buffers, *self.extra.values()))


@dataclass
class FedAvg:
    """Average the local weights (McMahan et al., AISTATS 2017). Settings only, no state: also the config schema."""

    name: str = "fedavg"

    def start(self, server: Server) -> None:
        """Prepare the server's memory before the first round."""

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


def average(uploads: Iterable[Upload]) -> Upload:
    """The mean of uploads by their shares, as a running sum: memory does not grow with the clients of a round."""
    mean: Upload | None = None
    for upload in uploads:
        if mean is None:
            zeros = {name: torch.zeros_like(vector) for name, vector in upload.extra.items()}
            mean = Upload(torch.zeros_like(upload.weights), torch.zeros_like(upload.buffers), 0.0, zeros)
        mean.share += upload.share
        mean.weights.add_(upload.weights, alpha=upload.share)
        mean.buffers.add_(upload.buffers, alpha=upload.share)
        for name, vector in upload.extra.items():
            mean.extra[name].add_(vector, alpha=upload.share)
    assert mean is not None, "a round has at least one client"
    for vector in (mean.weights, mean.buffers, *mean.extra.values()):
        vector.div_(mean.share)
    return mean
