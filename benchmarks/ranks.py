"""Time a round with evaluation over several processes, against the floor in one process."""

import statistics
import time
from collections.abc import Generator
from dataclasses import dataclass

import torch

from benchmarks.floor import FloorProcess
from fedpan_exp import config
from fedpan_exp.federation import Round, federate, make_executor
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.console import quietly


@dataclass
class RankTimings:
    """Seconds per round, in the order measured."""

    floor: list[float]
    ours: dict[int, list[float]]  # by number of ranks

    def ratio(self, ranks: int) -> float:
        """Median ratio to the floor of rounds measured right after each other: a disturbance mostly affects both."""
        return statistics.median(ours / floor for ours, floor in zip(self.ours[ranks], self.floor, strict=True))


def over_ranks(overrides: tuple[str, ...], repeats: int, rank_counts: tuple[int, ...] = (1, 2)) -> RankTimings:
    """Alternate the rounds of the floor and of every number of ranks. Runs that are not timed wait idly."""
    overrides = (*overrides, f"fl_scene.H={repeats + 1}", "fabric.accelerator=cpu")
    setting, threads = config.experiment(*overrides), torch.get_num_threads()
    floor = FloorProcess(overrides)
    runs: dict[int, Generator[Round]] = {}
    for ranks in rank_counts:
        with quietly():
            task = make_task(setting, set_up(setting))
        runs[ranks] = federate(task, make_executor(task, ranks))
    timings = RankTimings([], {ranks: [] for ranks in rank_counts})
    for round_idx in range(1, repeats + 2):
        floor_seconds = floor.seconds(round_idx, with_test=True)
        if round_idx > 1:  # the first round warms up
            timings.floor.append(floor_seconds)
        for ranks, run in runs.items():
            torch.set_num_threads(floor.threads if ranks == 1 else 1)
            started = time.perf_counter()
            next(run).test()
            if round_idx > 1:
                timings.ours[ranks].append(time.perf_counter() - started)
    for run in runs.values():
        run.close()
    floor.close()
    torch.set_num_threads(threads)  # last: a run that closes restores the threads it started with
    return timings
