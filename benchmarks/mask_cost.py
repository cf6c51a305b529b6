"""Cost of entries that are not trained: a step with a mask relative to one without."""

import statistics
import time

import torch

from fedpan_exp import config
from fedpan_exp.algorithms.fedpfn import random_mask
from fedpan_exp.studies.shared.setup import make_trainer
from fedpan_exp.system.console import quietly
from fedpan_exp.training import LocalTrainer, classification_loss

STEPS, REPEATS = 10, 30


def mask_cost(job: tuple[str, ...], *overrides: str, frozen: float = 0.0) -> float:
    """Alternate steps of a job's plain network and of one with `overrides` or a fraction `frozen` of its weights."""
    plain, masked = (_trainer(*job, "pan=off"), _trainer(*job, "pan=off", *overrides))
    images = torch.randn(64, *config.experiment(*job).dataset.shape)
    mask = random_mask(masked.net, 0, 0.0, frozen) if frozen else None
    ratios = []
    for _ in range(REPEATS):
        without = _time_steps(plain, images)
        with masked.net.freezing(mask):
            ratios.append(_time_steps(masked, images) / without)
    return statistics.median(ratios)


def _trainer(*overrides: str) -> LocalTrainer:
    setting = config.experiment(*overrides, "fabric.accelerator=cpu")
    with quietly():
        return make_trainer(setting, setting.network())


def _time_steps(trainer: LocalTrainer, images: torch.Tensor) -> float:
    batch = (images, torch.zeros(len(images), dtype=torch.long))
    started = time.perf_counter()
    trainer.fit([batch] * STEPS, 1, lambda x, y: classification_loss(trainer.net(x), y), adjust_gradient=lambda: None)
    return time.perf_counter() - started
