"""Compare the global model with one client's local model: the base of the matching and preference studies."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from fedpan_exp.config import Experiment
from fedpan_exp.models import check_layers
from fedpan_exp.probes.activation_probe import ActivationProbe
from fedpan_exp.studies.federate.study import Federate, run_federated
from fedpan_exp.studies.shared.setup import FederatedSetup, set_up
from fedpan_exp.system.console import counted, print_status
from fedpan_exp.system.errors import Diverged, require
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import FlatParameters, classification_loss


class Models(NamedTuple):
    global_model: FlatParameters
    local_model: FlatParameters


@dataclass
class ModelComparison(Federate):
    """Federated training, then local training of one client; subclasses compare the two models."""

    name: str = ""
    layers: list[str] = field(default_factory=list)  # empty: all hidden layers
    E: int = 20  # epochs of the client's local training
    samples: int = 500  # test images

    def __post_init__(self) -> None:
        require(self.E >= 1, "study.E", "at least 1", self.E)
        require(self.samples >= 1, "study.samples", "at least 1", self.samples)

    def check(self, experiment: Experiment) -> None:
        per_client = experiment.pan.per_client
        rule = f"shared with study={self.name}, which evaluates both models with the same encodings"
        require(per_client == "shared", "pan.per_client", rule, per_client)
        check_layers(experiment.meta_network(), self.layers)

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        setup = set_up(experiment)
        rule = f"at most {len(setup.test):,}, the test images of {experiment.dataset.name}"
        require(self.samples <= len(setup.test), "study.samples", rule, self.samples)
        server, summary = run_federated(experiment, setup, record, stop)
        global_model = FlatParameters(server.weights, server.buffers)
        local_model = finetune_client(experiment, setup, global_model, self.E, stop)
        layers = self.layers or list(setup.trainer.net.net.activation_modules)
        probe = ActivationProbe(setup.trainer, setup.test, self.samples, experiment.seed, layers)
        ratios = self.compare(Models(global_model, local_model), probe, setup, record)
        record.write_summary(summary | {f"summary/{self.name}/{layer}": ratio for layer, ratio in ratios.items()})

    @abstractmethod
    def compare(
        self, models: Models, probe: ActivationProbe, setup: FederatedSetup, record: Record
    ) -> dict[str, float]:
        """Write the results to the run folder; return layer -> the fraction of neurons that agree."""


def finetune_client(
    experiment: Experiment, setup: FederatedSetup, global_model: FlatParameters, E: int, stop: StopRequest
) -> FlatParameters:
    """Train the global model further on the data of one client, drawn by the seed: plain SGD for any algorithm."""
    scene, trainer, clients = experiment.fl_scene, setup.trainer, setup.clients
    k = int(torch.randint(len(clients), (), generator=rng(experiment.seed, "visited")))
    samples = counted(clients.samples(k), "sample")
    print_status("finetune", f"client {k} trains alone for {counted(E, 'epoch')} on its {samples}")
    trainer.net.load(*global_model)
    batches = clients.batches(k, scene.H + 1, E, scene.B, skip_single=trainer.has_batch_norm)
    with trainer.net.using_encodings_of(k, experiment.seed):
        fit = trainer.fit(
            stop.interruptible(batches), scene.H + 1, loss=lambda x, y: classification_loss(trainer.net(x), y)
        )
    if not math.isfinite(fit.loss):
        raise Diverged(f"diverged at client {k}, which trained alone: its loss is {fit.loss}; try training.clip")
    return FlatParameters(trainer.net.weights, trainer.net.buffers).cpu_copy()
