"""FedDF: Ensemble Distillation for Robust Model Fusion in Federated Learning (Lin et al., NeurIPS 2020)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedpan_exp.algorithms.base import FedAvg, ServerContext, ServerState
from fedpan_exp.algorithms.update import CohortUpdate
from fedpan_exp.data import DATASETS
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.system.rng import rng
from fedpan_exp.training import FlatParameters, distil


@dataclass
class FedDF(FedAvg):
    """Train the mean of the local models to give their mean logits on unlabelled images of the server.

    Every local model counts the same in the mean logits; fl_scene.averaging weights the mean that is trained.
    """

    steps: int = 500
    lr: float = 1e-3
    B: int = 64
    clip: float = 5.0
    temperature: float = 1.0
    data: str | None = None
    needs_models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(self.steps >= 0, "algorithm.steps", "at least 0", self.steps)
        require(self.lr > 0, "algorithm.lr", "above 0", self.lr)
        require(self.B >= 1, "algorithm.B", "at least 1", self.B)
        require(self.clip > 0, "algorithm.clip", "above 0", self.clip)
        require(self.temperature > 0, "algorithm.temperature", "above 0", self.temperature)

    def check(self, experiment: Any) -> None:
        if experiment.meta_network().has_batch_norm:
            require(self.B >= 2, "algorithm.B", "at least 2 for a network with BatchNorm", self.B)
        if self.data is None:
            rule = "above 0 with algorithm=feddf, for images on the server (or set algorithm.data=cifar100)"
            require(experiment.fl_scene.reserve > 0, "fl_scene.reserve", rule, experiment.fl_scene.reserve)
        else:
            require_choice("algorithm.data", self.data, DATASETS)
            rule = "another dataset than the clients' (use fl_scene.reserve for images like theirs)"
            require(self.data != experiment.dataset.name, "algorithm.data", rule, self.data)

    @property
    def server_dataset(self) -> str | None:
        return self.data

    @property
    def server_samples(self) -> int:
        return self.steps * self.B

    def fuse(self, server: ServerState, update: CohortUpdate, context: ServerContext) -> dict[str, float]:
        started = time.perf_counter()
        trainer, images = context.trainer, context.unlabelled
        assert images is not None, "check() requires them"
        mean = FlatParameters(server.weights, server.buffers)
        if self.steps:
            targets = mean_logits(update.models, images, context)
            trainer.net.load(*mean)
            generator = rng(context.seed, "distillation", context.round_idx)
            batches = torch.randint(len(images), (self.steps, self.B), generator=generator)
            distil(trainer, images, targets, batches, self.lr, self.clip, self.temperature)
            server.weights, server.buffers = trainer.net.weights.clone(), trainer.net.buffers.clone()
        metrics = {"time/fuse_s": time.perf_counter() - started}
        if context.test is not None:
            trainer.net.load(*mean)
            metrics["global/mean_acc"] = trainer.evaluate(context.test).accuracy
            predictions = mean_logits(update.models, context.test.x, context).argmax(1)
            metrics["global/ensemble_acc"] = (predictions == context.test.y).double().mean().item()
        return metrics


def mean_logits(models: Sequence[FlatParameters], images: Tensor, context: ServerContext) -> Tensor:
    """The ensemble of the local models, [images, classes]; one network at a time."""
    net, total = context.trainer.net, torch.zeros(())
    for k, model in zip(context.cohort, models, strict=True):
        net.load(*model)
        with net.using_encodings_of(k, context.seed):
            total = total + context.trainer.logits(images)
    return total / len(models)
