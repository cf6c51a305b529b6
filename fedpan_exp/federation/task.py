"""What is trained, on whose data, and how."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from fedpan_exp.algorithms import FedAvg, ServerContext, ServerState
from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.federation.scene import Scene
from fedpan_exp.training import LocalTrainer


@dataclass
class FederatedTask:
    """Everything about a federated run that does not change from round to round."""

    algorithm: FedAvg
    trainer: LocalTrainer  # with the initial weights
    clients: Clients
    scene: Scene
    seed: int
    test: ImageTensors | None = None  # the global test set
    snapshot_at: Callable[[int], bool] = lambda round_idx: False  # rounds whose models are kept for probes
    evaluate_at: Callable[[int], bool] = lambda round_idx: True  # rounds that are tested
    unlabelled: Tensor | None = None  # images on the server, see fl_scene.reserve
    initial_buffers: Tensor = field(init=False)  # BatchNorm statistics before any training

    def __post_init__(self) -> None:
        self.initial_buffers = self.trainer.net.buffers.clone()

    @property
    def cohort_size(self) -> int:
        return self.scene.cohort_size(len(self.clients))

    def init_server(self) -> ServerState:
        net = self.trainer.net
        server = ServerState(net.weights.clone(), net.buffers.clone(), clients=len(self.clients))
        self.algorithm.init_server(server, net)
        return server

    def sample_cohort(self, round_idx: int) -> list[int]:
        drawn_in = self.algorithm.cohort_round(round_idx, self.trainer.net)
        return self.scene.sample_cohort(len(self.clients), drawn_in, self.seed)

    def needs_models(self, round_idx: int) -> bool:
        """Whether the local models of a round are kept, and not only their mean."""
        return self.algorithm.needs_models or self.snapshot_at(round_idx)

    def server_context(self, cohort: list[int], round_idx: int) -> ServerContext:
        test = self.test if self.evaluate_at(round_idx) else None
        return ServerContext(self.trainer, self.clients, cohort, round_idx, self.seed, self.unlabelled, test)

    def divergence_message(self, detail: str) -> str:
        """What happened, and what to try."""
        settings = self.trainer.settings
        return (
            f"diverged {detail}; try a smaller training.lr (now {settings.lr:g}) or a bound on the gradient, "
            f"training.clip (now {settings.clip or 'none'})"
        )
