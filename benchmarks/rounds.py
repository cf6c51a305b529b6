"""One federated round against the floor, interleaved."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.floor import Floor
from fedpan_exp import config
from fedpan_exp.data import Clients, split
from fedpan_exp.federation import Round, federate
from fedpan_exp.training import Classifier, LocalTrainer


@dataclass
class Timing:
    floor: float  # seconds, the best of several rounds
    ours: float
    steps: int  # of the round the times are of

    @property
    def ratio(self) -> float:
        return self.ours / self.floor

    @property
    def overhead_us(self) -> float:
        """Microseconds a step over the floor."""
        return (self.ours - self.floor) / self.steps * 1e6


def against_floor(overrides: tuple[str, ...], repeats: int) -> Timing:
    """Every round of ours is followed by the same clients' round of the floor; the best time a step of each counts."""
    setting = config.experiment(*overrides, f"fl_scene.H={repeats + 1}", "fabric.accelerator=cpu")
    scene, training = setting.fl_scene, setting.training
    data = setting.dataset.load(setting.seed)
    parts = split(data.train.y, scene.rule(), setting.seed).parts
    fabric = setting.fabric.make()
    pixels = setting.dataset.pixels(fabric.device)
    floor = Floor(setting.network(), data.train.x, data.train.y, pixels, parts)
    trainer = LocalTrainer(fabric, Classifier(setting.network(), training), pixels)
    clients = Clients(data.train, pixels, parts, scene.local_test, setting.seed)
    rounds = federate(setting.algorithm, trainer, clients, scene, setting.seed)

    ours, plain, steps = [], [], 1
    for turn in range(1, repeats + 2):
        seconds, this = _timed(rounds)
        began = time.perf_counter()
        floor.round(
            scene.chosen(len(clients), turn, setting.seed), scene.E, scene.B, training.lr, training.warmup_length
        )
        if turn > 1:  # the first round of each warms up
            steps = sum(fit.steps for fit in this.fits)
            ours.append(seconds / steps)
            plain.append((time.perf_counter() - began) / steps)
    return Timing(min(plain) * steps, min(ours) * steps, steps)


def _timed(rounds: Iterator[Round]) -> tuple[float, Round]:
    began = time.perf_counter()
    this = next(rounds)
    return time.perf_counter() - began, this
