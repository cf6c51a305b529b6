"""The federated algorithm: hooks whose defaults are FedAvg."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from fedpan_exp.algorithms.update import CohortUpdate
from fedpan_exp.training import FlatNet, classification_loss


@dataclass
class ServerState:
    """Everything the server keeps from round to round."""

    weights: Tensor
    buffers: Tensor  # BatchNorm statistics
    clients: int  # K
    state: dict[str, Tensor] = field(default_factory=dict)  # the algorithm's own, e.g. Scaffold's control


@dataclass
class ClientContext:
    """One client in one round."""

    server: ServerState  # as it was sent to the client
    state: dict[str, Tensor]  # what this client keeps until its next round
    samples: int
    accumulated_lr: float = 0.0  # sum of the effective step sizes: steps x lr for plain SGD, larger with momentum
    scratch: dict[str, Any] = field(default_factory=dict)  # what the hooks share during this round


@dataclass
class FedAvg:
    """Average the local weights (McMahan et al., AISTATS 2017). Holds settings only; also the config schema."""

    name: str = "fedavg"
    needs_models: ClassVar[bool] = False  # whether aggregate() reads the local models, in update.models

    @property
    def extra_weight_decay(self) -> float:
        """Weight decay added to training.weight_decay."""
        return 0.0

    def init_server(self, server: ServerState) -> None:
        """Prepare `server.state` before the first round."""

    def payload(self, server: ServerState) -> list[Tensor]:
        """The vectors sent to every client of the cohort."""
        return [server.weights, server.buffers]

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        """Prepare `client.scratch` before the first local step."""

    def loss(self, net: FlatNet, x: Tensor, y: Tensor, client: ClientContext) -> Tensor:
        return classification_loss(net(x), y)

    def adjust_gradient(self, net: FlatNet, client: ClientContext) -> None:
        """Change the parameters' gradients between backward and the optimizer's step."""

    def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, Tensor]:
        """Update `client.state` after the last local step; return what to send back in addition to the weights."""
        return {}

    def aggregate(self, server: ServerState, update: CohortUpdate) -> None:
        """Move the server by the weighted mean of the clients' updates."""
        server.weights, server.buffers = update.weights, update.buffers
