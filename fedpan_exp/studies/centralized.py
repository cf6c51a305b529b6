"""Training at one place, as several studies need it: the data in a hand or two, a network, its test accuracy."""

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from fedpan_exp.config import Experiment
from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.models import Network, authors_init
from fedpan_exp.studies.setup import describe_network, load, make_trainer
from fedpan_exp.studies.study import Study
from fedpan_exp.system.console import ProgressBar, console, print_status, warn
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import CHECKPOINT, Record
from fedpan_exp.training import Classifier, Epochs, EvalResult, Keeper, LocalTrainer, Training, begun, train

ADAM_LR = 3e-4  # the paper's


@dataclass
class Central(Study):
    """How a network is trained without a federation."""

    epochs: int = 30
    optimizer: str = "sgd"
    lr: float | None = None  # null: training.lr with sgd, the paper's 3e-4 with adam
    B: int = 64
    irrelevant: ClassVar[tuple[str, ...]] = ("algorithm", "fl_scene", "eval_every")

    def __post_init__(self) -> None:
        require(self.epochs >= 1, "study.epochs", "at least 1", self.epochs)
        require_choice("study.optimizer", self.optimizer, ("sgd", "adam"))
        is_rate = self.lr is None or (math.isfinite(self.lr) and self.lr > 0)
        require(is_rate, "study.lr", "above 0, or null for the usual one", self.lr)
        require(self.B >= 1, "study.B", "at least 1", self.B)

    def check(self, experiment: Experiment) -> None:
        if experiment.meta_network().has_batch_norm:
            require(self.B >= 2, "study.B", "at least 2 for a network with BatchNorm", self.B)

    def training(self, usual: Training) -> Training:
        lr = self.lr or (usual.lr if self.optimizer == "sgd" else ADAM_LR)
        warmup = "steps" if usual.warmup == "rounds" else usual.warmup  # there are no rounds here
        return replace(usual, lr=lr, warmup=warmup)


@dataclass
class Site:
    """All that training and testing at one place takes; networks are tested in a twin, by their state."""

    experiment: Experiment
    clients: Clients  # one with all the data, or several with a part each
    test: ImageTensors
    judge: LocalTrainer

    @property
    def twin(self) -> Network:
        return self.judge.net.net

    def score(self, state: Mapping[str, Tensor]) -> EvalResult:
        self.twin.load_state_dict(state)
        return self.judge.evaluate(self.test)

    @torch.inference_mode()
    def logits(self, state: Mapping[str, Tensor]) -> Tensor:
        """[test images, classes]"""
        self.twin.load_state_dict(state)
        self.twin.eval()
        batches = self.test.x.split(self.judge.evaluation_batch(self.test))
        return torch.cat([self.judge.net(self.judge.transform.normalize(x)) for x in batches])


def make_site(experiment: Experiment, parts: int = 1) -> Site:
    twin = experiment.network()
    describe_network(experiment, twin)
    data = load(experiment)
    judge = make_trainer(experiment, twin)
    order = torch.randperm(len(data.train), generator=rng(experiment.seed, "parts"))
    device, B = judge.fabric.device, experiment.study.B
    clients = Clients(data.train.to(device), judge.transform, order.tensor_split(parts), 0.0, experiment.seed)
    if judge.has_batch_norm and any(len(part) % B == 1 for part in clients.train):
        warn("the last batch of an epoch has one sample; it is skipped, because of BatchNorm")
    return Site(experiment, clients, data.test.to(device), judge)


def hold(experiment: Experiment, record: Record) -> None:
    record.lock()
    if experiment.rerun:
        shutil.rmtree(record.folder / CHECKPOINT, ignore_errors=True)


def checkpoint_of(record: Record, k: int = 0) -> Path:
    return record.folder / CHECKPOINT / f"net{k}.safetensors"


def train_network(
    site: Site,
    record: Record,
    stop: StopRequest,
    k: int = 0,
    note: Callable[[int, float, EvalResult], None] = lambda epoch, loss, score: None,
) -> dict[str, Tensor]:
    """A network of its own on the k-th part of the data, tested after every epoch, which `note` hears of."""
    experiment, settings = site.experiment, site.experiment.study
    training, path = settings.training(experiment.training), checkpoint_of(record, k)
    net = experiment.network()
    if k:
        authors_init(net, rng(experiment.seed, "weights", k))
    done = begun(path).epochs
    batches = Epochs(site.clients, k, settings.B, site.judge.has_batch_norm, stop, record.heartbeat)
    which = f"network {k + 1} of {len(site.clients)}, " if len(site.clients) > 1 else ""
    how = f"{settings.optimizer}, lr {training.lr:g}, {settings.epochs} epochs of {len(batches):,} batches"
    print_status("training", which + how)
    if done:
        print_status("resume", f"after epoch {done}, from its checkpoint")
    progress = None if console.is_terminal else ProgressBar(settings.epochs, None, "train", settings.epochs, done)

    def tell(epoch: int, loss: float) -> dict[str, float]:
        score = site.score(net.state_dict())
        note(epoch, loss, score)
        if progress:
            progress.advance()
            progress.describe(f"epoch {epoch}/{settings.epochs}  loss {loss:.4f}  accuracy {score.accuracy:.2%}")
        return {"loss": loss, "accuracy": score.accuracy}

    keeper = Keeper(path, tell, lambda: record.metrics_bytes)
    train(Classifier(net, training, settings.optimizer), batches, settings.epochs, keeper, experiment.fabric)
    return {name: tensor.detach() for name, tensor in net.state_dict().items()}
