"""What probes cost: a round that they look at takes longer, the others do not."""

import statistics
import time
from dataclasses import dataclass, replace

from fedpan_exp import config
from fedpan_exp.federation import federate
from fedpan_exp.probes import PROBES, make_probes, measure
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.console import quietly

EVERY = 3


@dataclass
class Cost:
    """Times of the rounds of a run with probes, as ratios to the same rounds without."""

    looked_at: float
    others: float


def is_looked_at(round_idx: int) -> bool:
    return round_idx % EVERY == 0


def cost_of_probing(*overrides: str, looks: int = 4) -> Cost:
    """All probes, in every third round; the two runs take their rounds in turns."""
    setting = config.experiment(*overrides, f"fl_scene.H={EVERY * looks}", "fabric.accelerator=cpu", "ranks=1")
    ratios: dict[bool, list[float]] = {True: [], False: []}
    with quietly():
        plain, probed = set_up(setting), set_up(setting)
    probes = make_probes(list(PROBES), probed.trainer, probed.clients, probed.test)
    without = federate(make_task(setting, plain))
    having = federate(replace(make_task(setting, probed), snapshot_at=is_looked_at))
    for round_idx in range(1, setting.fl_scene.H + 1):
        began = time.perf_counter()
        next(without)
        seconds = time.perf_counter() - began
        began = time.perf_counter()
        this = next(having)
        if this.snapshot:
            measure(probes, this.snapshot)
        if round_idx > 1:  # the first of each warms up
            ratios[is_looked_at(round_idx)].append((time.perf_counter() - began) / seconds)
    return Cost(statistics.median(ratios[True]), statistics.median(ratios[False]))
