"""Cost of probes: a round that is probed takes longer, the others do not."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedpan_exp import config
from fedpan_exp.federation import federate
from fedpan_exp.probes import PROBES, make_probes, measure
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.console import quietly

EVERY = 3


@dataclass
class ProbingCost:
    """Median times of rounds in a run with probes, as ratios to the same rounds without."""

    probed_rounds: float
    other_rounds: float


def is_probed(round_idx: int) -> bool:
    return round_idx % EVERY == 0


def probing_cost(*overrides: str, names: Sequence[str] = tuple(PROBES), probed_rounds: int = 4) -> ProbingCost:
    """Use these probes in every third round; the rounds of a run with probes and one without alternate."""
    H = EVERY * probed_rounds
    setting = config.experiment(*overrides, f"fl_scene.H={H}", "fabric.accelerator=cpu", "ranks=1")
    ratios: dict[bool, list[float]] = {True: [], False: []}
    with quietly():
        plain, probed = set_up(setting), set_up(setting)
    probes = make_probes(names, probed.trainer, probed.clients, probed.test)
    plain_run = federate(make_task(setting, plain))
    probed_run = federate(replace(make_task(setting, probed), snapshot_at=is_probed))
    for round_idx in range(1, H + 1):
        started = time.perf_counter()
        next(plain_run)
        plain_seconds = time.perf_counter() - started
        started = time.perf_counter()
        round_ = next(probed_run)
        if round_.snapshot:
            measure(probes, round_.snapshot)
        if round_idx > 1:  # the first round warms up
            ratios[is_probed(round_idx)].append((time.perf_counter() - started) / plain_seconds)
    return ProbingCost(statistics.median(ratios[True]), statistics.median(ratios[False]))
