"""Cost of entries that are not trained: a step with a mask relative to one without."""

import time

import torch

from fedpan_exp import config
from fedpan_exp.algorithms.fedpfn import random_mask
from fedpan_exp.studies.shared.setup import make_trainer
from fedpan_exp.system.console import quietly
from fedpan_exp.training import LocalTrainer, classification_loss

STEPS, REPEATS = 10, 12


def mask_cost(*overrides: str, frozen: float = 0.0) -> float:
    """Alternate steps of the plain network and of one with `overrides`, or with a fraction `frozen` of its weights."""
    plain, masked = (_trainer("pan=off"), _trainer("pan=off", *overrides))
    mask = random_mask(masked.net, 0, 0.0, frozen) if frozen else None
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(REPEATS):
        seconds[False].append(_time_steps(plain))
        with masked.net.freezing(mask):
            seconds[True].append(_time_steps(masked))
    return min(seconds[True]) / min(seconds[False])


def _trainer(*overrides: str) -> LocalTrainer:
    setting = config.experiment(*overrides, "fabric.accelerator=cpu")
    with quietly():
        return make_trainer(setting, setting.network())


def _time_steps(trainer: LocalTrainer) -> float:
    batch = (torch.randn(64, 1, 28, 28), torch.zeros(64, dtype=torch.long))
    started = time.perf_counter()
    trainer.fit([batch] * STEPS, 1, lambda x, y: classification_loss(trainer.net(x), y), adjust_gradient=lambda: None)
    return time.perf_counter() - started
