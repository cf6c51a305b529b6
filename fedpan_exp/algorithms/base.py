"""The federated algorithm: hooks whose defaults are FedAvg."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedpan_exp.algorithms.update import CohortUpdate
from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.training import FlatNet, FlatParameters, LocalTrainer, classification_loss


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
    k: int = 0  # its index
    seed: int = 0  # of the run
    label_counts: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))  # its samples per class
    round_idx: int = 0  # from 1
    accumulated_lr: float = 0.0  # sum of the effective step sizes: steps x lr for plain SGD, larger with momentum
    # What it received and sends, without BatchNorm statistics, where that is less than the whole payload and update.
    down_bytes: int | None = None
    up_bytes: int | None = None
    scratch: dict[str, Any] = field(default_factory=dict)  # what the hooks share during this round


@dataclass
class ServerContext:
    """What an algorithm that needs the local models may use on the server after a round."""

    trainer: LocalTrainer  # its network is free to be overwritten
    clients: Clients
    cohort: list[int]
    round_idx: int
    seed: int
    unlabelled: Tensor | None = None  # images [N, C, H, W] that no client has, see fl_scene.reserve
    test: ImageTensors | None = None  # the global test set, in rounds that are evaluated


@dataclass
class FedAvg:
    """Average the local weights (McMahan et al., AISTATS 2017). Holds settings only; also the config schema."""

    name: str = "fedavg"  # the chosen option
    needs_models: ClassVar[bool] = False  # whether fuse() reads the local models, in update.models
    state_settings: ClassVar[tuple[str, ...]] = ()  # on which the meaning of server.state and client.state depends

    def check(self, experiment: Any) -> None:
        """Raise ConfigError if the algorithm cannot work with the other settings of a config.Experiment."""

    @property
    def extra_weight_decay(self) -> float:
        """Weight decay added to training.weight_decay."""
        return 0.0

    @property
    def server_dataset(self) -> str | None:
        """Another dataset, whose images the server uses unlabelled. None: those of fl_scene.reserve."""
        return None

    @property
    def server_samples(self) -> int:
        """On how many samples the server trains after a round, for estimates of the time."""
        return 0

    @property
    def adjusts_gradient(self) -> bool:
        """Whether the algorithm has an `adjust_gradient` of its own."""
        return type(self).adjust_gradient is not FedAvg.adjust_gradient

    def cohort_round(self, round_idx: int, net: FlatNet) -> int:
        """The round whose random draw selects the cohort: rounds with the same number train the same clients."""
        return round_idx

    def epochs(self, server: ServerState, E: float) -> float:
        """The local epochs of a round. With fl_scene.steps, the steps change by the same factor."""
        return E

    def init_server(self, server: ServerState, net: FlatNet) -> None:
        """Prepare `server.state` before the first round."""

    def payload(self, server: ServerState) -> list[Tensor]:
        """The vectors sent to every client of the cohort."""
        return [server.weights, server.buffers]

    def frozen(self, net: FlatNet, client: ClientContext) -> Tensor | None:
        """A boolean mask over the weights: the entries that this client's training must not change. None: no entry."""
        return None

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        """Prepare `client.scratch` before the first local step."""

    def loss(self, net: FlatNet, x: Tensor, y: Tensor, client: ClientContext) -> Tensor:
        return classification_loss(net(x), y)

    def adjust_gradient(self, net: FlatNet, client: ClientContext) -> None:
        """Change the parameters' gradients between backward and the optimizer's step."""

    def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, Tensor]:
        """Update `client.state` after the last local step; return what to send back in addition to the weights."""
        return {}

    def aggregation_weight(self, client: ClientContext, weight: float) -> float:
        """The client's weight in the mean; `weight` is what fl_scene.averaging gives it."""
        return weight

    def personal_model(self, net: FlatNet, client: ClientContext) -> FlatParameters | None:
        """The model that is tested on the client's held-out samples after training. None: the trained one."""
        return None

    def aggregate(self, server: ServerState, update: CohortUpdate) -> None:
        """Move the server by the weighted mean of the clients' updates."""
        server.weights, server.buffers = update.weights, update.buffers

    def fuse(self, server: ServerState, update: CohortUpdate, context: ServerContext) -> dict[str, float]:
        """Move the server further by means of the local models, after `aggregate`; return metrics of the round.

        Called where `needs_models` is set.
        """
        return {}

    def is_tested(self, server: ServerState, is_due: bool) -> bool:
        """Whether the global model is tested after this round; `is_due`: by eval_every."""
        return is_due

    def evaluated_weights(self, server: ServerState) -> Tensor:
        """The weights whose accuracy on the global test set is reported."""
        return server.weights
