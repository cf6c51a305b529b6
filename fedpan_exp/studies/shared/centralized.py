"""Centralized training for several studies: data in one or more parts, one network per part, test accuracy."""

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from fedpan_exp.config import Experiment
from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.models import Network
from fedpan_exp.studies.shared.setup import describe_network, load, make_trainer
from fedpan_exp.studies.study import Study
from fedpan_exp.system.console import ProgressBar, console, counted, print_status, warn
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import CHECKPOINT, Record
from fedpan_exp.training import EvalResult, LocalTrainer, Training

ADAM_LR = 3e-4  # the paper's


@dataclass
class CentralizedStudy(Study):
    """Settings of centralized training."""

    epochs: int = 30
    optimizer: str = "sgd"
    lr: float | None = None  # null: training.lr with sgd, the paper's 3e-4 with adam
    B: int = 64
    irrelevant = ("algorithm", "fl_scene", "eval_every")

    def __post_init__(self) -> None:
        require(self.epochs >= 1, "study.epochs", "at least 1", self.epochs)
        require_choice("study.optimizer", self.optimizer, ("sgd", "adam"))
        is_valid = self.lr is None or (math.isfinite(self.lr) and self.lr > 0)
        require(is_valid, "study.lr", "above 0, or null for the default", self.lr)
        require(self.B >= 1, "study.B", "at least 1", self.B)

    def check(self, experiment: Experiment) -> None:
        if experiment.meta_network().has_batch_norm:
            require(self.B >= 2, "study.B", "at least 2 for a network with BatchNorm", self.B)

    def training(self, defaults: Training) -> Training:
        lr = self.lr or (defaults.lr if self.optimizer == "sgd" else ADAM_LR)
        warmup = "steps" if defaults.warmup == "rounds" else defaults.warmup  # centralized training has no rounds
        return replace(defaults, lr=lr, warmup=warmup)


@dataclass
class CentralizedSetup:
    """Data and evaluator; state dicts are loaded into a separate network for evaluation."""

    experiment: Experiment
    clients: Clients  # one with all data, or one per part
    test: ImageTensors
    evaluator: LocalTrainer

    @property
    def eval_network(self) -> Network:
        return self.evaluator.net.net

    def on_device(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor.to(self.evaluator.fabric.device) for name, tensor in state.items()}

    def evaluate(self, state: Mapping[str, Tensor]) -> EvalResult:
        self.eval_network.load_state_dict(state)
        return self.evaluator.evaluate(self.test)

    def logits(self, state: Mapping[str, Tensor]) -> Tensor:
        """[test images, classes]"""
        self.eval_network.load_state_dict(state)
        return self.evaluator.logits(self.test.x)


def set_up_centralized(experiment: Experiment, parts: int = 1) -> CentralizedSetup:
    # lightning.Trainer would decay and clip gradients that are still scaled.
    precision = experiment.fabric.precision
    require(precision != "16-mixed", "fabric.precision", "another one in centralized training", precision)
    net = experiment.network()
    describe_network(experiment, net)
    data = load(experiment)
    evaluator = make_trainer(experiment, net)
    indices = torch.randperm(len(data.train), generator=rng(experiment.seed, "parts")).tensor_split(parts)
    device, B = evaluator.fabric.device, experiment.study.B
    clients = Clients(data.train.to(device), evaluator.transform, indices, 0.0, experiment.seed)
    if evaluator.has_batch_norm and any(size % B == 1 for size in clients.sizes):
        warn("the last batch of an epoch has one sample; it is skipped because of BatchNorm")
    return CentralizedSetup(experiment, clients, data.test.to(device), evaluator)


def lock_run(experiment: Experiment, record: Record) -> None:
    """Lock the run folder, and delete the checkpoints of a run that starts over."""
    record.lock()
    if experiment.rerun:
        shutil.rmtree(record.folder / CHECKPOINT, ignore_errors=True)


def checkpoint_path(record: Record, k: int = 0) -> Path:
    return record.folder / CHECKPOINT / f"net{k}.safetensors"


def train_network(
    setup: CentralizedSetup,
    record: Record,
    stop: StopRequest,
    k: int = 0,
    on_epoch: Callable[[int, float, EvalResult], None] = lambda epoch, loss, result: None,
) -> dict[str, Tensor]:
    """Train a new network on part k of the data and return its state; `on_epoch` gets the test result per epoch."""
    from fedpan_exp.training import Classifier, EpochBatches, EpochCheckpoint, read_progress, train

    experiment, settings = setup.experiment, setup.experiment.study
    training, path = settings.training(experiment.training), checkpoint_path(record, k)
    net = experiment.network(k)
    done = read_progress(path).epochs
    batches = EpochBatches(setup.clients, k, settings.B, setup.evaluator.has_batch_norm, stop, record.heartbeat)
    network = f"network {k + 1} of {len(setup.clients)}, " if len(setup.clients) > 1 else ""
    schedule = (
        f"{settings.optimizer}, lr {training.lr:g}, {counted(settings.epochs, 'epoch')} of {len(batches):,} batches"
    )
    print_status("training", network + schedule)
    if done:
        print_status("resume", f"after epoch {done}, from its checkpoint")
    progress = None if console.is_terminal else ProgressBar(settings.epochs, None, "train", settings.epochs, done)

    def finish_epoch(epoch: int, loss: float) -> dict[str, float]:
        result = setup.evaluate(net.state_dict())
        on_epoch(epoch, loss, result)
        if progress:
            progress.advance()
            progress.describe(f"epoch {epoch}/{settings.epochs}  loss {loss:.4f}  accuracy {result.accuracy:.2%}")
        return {"loss": loss, "accuracy": result.accuracy}

    keeper = EpochCheckpoint(path, finish_epoch, lambda: record.metrics_bytes)
    train(Classifier(net, training, settings.optimizer), batches, settings.epochs, keeper, experiment.fabric)
    return {name: tensor.detach() for name, tensor in net.state_dict().items()}
