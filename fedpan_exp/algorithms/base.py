"""The federated algorithm: hooks, whose defaults are FedAvg."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from fedpan_exp.algorithms.update import ClientUpdate, average
from fedpan_exp.training.flat import FlatNet


@dataclass
class ServerState:
    """Everything that travels from round to round."""

    weights: Tensor
    buffers: Tensor  # BatchNorm statistics
    clients: int  # K
    state: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class ClientContext:
    """One client's part of one round."""

    server: ServerState
    state: dict[str, Tensor]  # what this client keeps until its next visit
    samples: int
    accumulated_lr: float = 0.0  # how far the steps would have moved the weights under a constant gradient of 1
    scratch: dict[str, Any] = field(default_factory=dict)  # what the algorithm needs at hand during the visit


@dataclass
class FedAvg:
    """Average the local weights (McMahan et al., AISTATS 2017). Settings only, no state: also the config schema."""

    name: str = "fedavg"

    @property
    def decay(self) -> float:
        """Pull of the local weights toward 0, beside training.weight_decay."""
        return 0.0

    def init_server(self, server: ServerState) -> None:
        """Prepare the server's memory before the first round."""

    def payload(self, server: ServerState) -> list[Tensor]:
        """What a client of the round is sent."""
        return [server.weights, server.buffers]

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        """Lay out on the visit's desk what its steps will need."""

    def loss(self, net: FlatNet, x: Tensor, y: Tensor, client: ClientContext) -> Tensor:
        return F.cross_entropy(net(x), y)

    def adjust_gradient(self, net: FlatNet, client: ClientContext) -> None:
        """Change the parameters' gradients between backward and the optimizer's step."""

    def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, Tensor]:
        """Update the client's memory; return what to upload beside the weights."""
        return {}

    def aggregate(self, server: ServerState, updates: Iterable[ClientUpdate]) -> None:
        """Take the uploads as they come in, one at a time, and move the server."""
        mean = average(updates)
        server.weights, server.buffers = mean.weights, mean.buffers
