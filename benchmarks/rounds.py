"""One federated round against the floor, interleaved."""

from dataclasses import dataclass

import torch

from benchmarks.floor import FloorProcess
from fedpan_exp import config
from fedpan_exp.federation import federate
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.console import quietly


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
    words = (*overrides, f"fl_scene.H={repeats + 1}", "fabric.accelerator=cpu")
    setting, given = config.experiment(*words), torch.get_num_threads()
    floor = FloorProcess(words)
    with quietly():
        task = make_task(setting, set_up(setting))
    torch.set_num_threads(floor.threads)
    rounds = federate(task)
    ours, plain, steps = [], [], 1
    for round_idx, this in enumerate(rounds, 1):
        its = floor.seconds(round_idx, tested=False)
        if round_idx > 1:  # the first round of each warms up
            steps = sum(fit.steps for fit in this.update.stats.fits)
            ours.append(this.seconds / steps)
            plain.append(its / steps)
    floor.close()
    torch.set_num_threads(given)
    return Timing(min(plain) * steps, min(ours) * steps, steps)
