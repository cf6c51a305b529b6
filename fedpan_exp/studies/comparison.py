"""Train globally, then let one client go on alone: what the matching and preference figures compare."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field

import torch
from torch.nn import functional as F

from fedpan_exp.config import Experiment
from fedpan_exp.models import check_layers
from fedpan_exp.probes.activation_probe import ActivationProbe
from fedpan_exp.studies.federate import Federate, run_federated
from fedpan_exp.studies.setup import FederatedSetup, set_up
from fedpan_exp.system.console import print_status
from fedpan_exp.system.errors import Diverged, require
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import FlatParameters


@dataclass
class Comparison(Federate):
    """The global model against what one client makes of it; how they are compared is the study's."""

    name: str = ""
    layers: list[str] = field(default_factory=list)  # none: every hidden one
    E: int = 20  # epochs the client goes on for
    samples: int = 500  # of the test set

    def __post_init__(self) -> None:
        require(self.E >= 1, "study.E", "at least 1", self.E)
        require(self.samples >= 1, "study.samples", "at least 1", self.samples)

    def check(self, experiment: Experiment) -> None:
        own, rule = experiment.pan.per_client, f"shared with study={self.name}, which looks at both models through one"
        require(own == "shared", "pan.per_client", rule, own)
        check_layers(experiment.meta_network(), self.layers)

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        world = set_up(experiment)
        most = f"at most {len(world.test):,}, the test images of {experiment.dataset.name}"
        require(self.samples <= len(world.test), "study.samples", most, self.samples)
        server, summary = run_federated(experiment, world, record, stop)
        global_model = FlatParameters(server.weights, server.buffers)
        local_model = visit(experiment, world, global_model, self.E, stop)
        layers = self.layers or list(world.trainer.net.net.activation_modules)
        probe = ActivationProbe(world.trainer, world.test, self.samples, experiment.seed, layers)
        shares = self.compare(global_model, local_model, probe, world, record)
        record.write_summary(summary | {f"summary/{self.name}/{layer}": share for layer, share in shares.items()})

    @abstractmethod
    def compare(
        self,
        global_model: FlatParameters,
        local_model: FlatParameters,
        probe: ActivationProbe,
        world: FederatedSetup,
        record: Record,
    ) -> dict[str, float]:
        """Write down what was found; layer -> the share of neurons that are alike."""


def visit(
    experiment: Experiment, world: FederatedSetup, global_model: FlatParameters, E: int, stop: StopRequest
) -> FlatParameters:
    """What a client drawn by the seed makes of the global model: plain local training, whatever the algorithm."""
    scene, trainer, clients = experiment.fl_scene, world.trainer, world.clients
    k = int(torch.randint(len(clients), (), generator=rng(experiment.seed, "visited")))
    print_status("visit", f"client {k} goes on alone for {E} epochs on its {clients.samples(k):,} samples")
    trainer.net.load(*global_model)
    batches = clients.batches(k, scene.H + 1, E, scene.B, skip_single=trainer.has_batch_norm)
    with trainer.net.at_client(k, experiment.seed):
        fit = trainer.fit(
            stop.interruptible(batches),
            scene.H + 1,
            loss=lambda x, y: F.cross_entropy(trainer.net(x), y),
            adjust_gradient=lambda: None,
        )
    if not math.isfinite(fit.loss):
        raise Diverged(f"diverged at client {k}, which went on alone: its loss is {fit.loss}; try training.clip")
    return FlatParameters(trainer.net.weights, trainer.net.buffers).copied()
