"""Time a federated round against the same round of the floor."""

from dataclasses import dataclass

import torch

from benchmarks.floor import FloorProcess
from fedpan_exp import config
from fedpan_exp.federation import federate
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.console import quietly


@dataclass
class Timing:
    floor: float  # seconds of the best round
    ours: float
    steps: int  # in a round

    @property
    def ratio(self) -> float:
        return self.ours / self.floor

    @property
    def overhead_us(self) -> float:
        """Microseconds per step more than the floor."""
        return (self.ours - self.floor) / self.steps * 1e6


def against_floor(overrides: tuple[str, ...], repeats: int) -> Timing:
    """Alternate our rounds with the floor's, on the same clients; of each, the best time per step counts."""
    overrides = (*overrides, f"fl_scene.H={repeats + 1}", "fabric.accelerator=cpu")
    setting, threads = config.experiment(*overrides), torch.get_num_threads()
    floor = FloorProcess(overrides)
    with quietly():
        task = make_task(setting, set_up(setting))
    torch.set_num_threads(floor.threads)
    our_times, floor_times, steps = [], [], 1
    for round_ in federate(task):
        floor_seconds = floor.seconds(round_.index, with_test=False)
        if round_.index > 1:  # the first round warms up
            steps = sum(fit.steps for fit in round_.update.stats.fits)
            our_times.append(round_.seconds / steps)
            floor_times.append(floor_seconds / steps)
    floor.close()
    torch.set_num_threads(threads)
    return Timing(min(floor_times) * steps, min(our_times) * steps, steps)
