"""A round and its test over several processes, against the floor in one."""

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
class Table:
    """Seconds a round, of rounds taken in turns."""

    floor: list[float]
    ours: dict[int, list[float]]  # by the number of ranks

    def ratio(self, ranks: int) -> float:
        """The median of rounds side by side: what disturbs one of a pair mostly disturbs the other, too."""
        return statistics.median(ours / floor for ours, floor in zip(self.ours[ranks], self.floor, strict=True))


def over_ranks(overrides: tuple[str, ...], repeats: int, numbers: tuple[int, ...] = (1, 2)) -> Table:
    """The first round of each warms up. While one is timed the others wait, and take no time."""
    words = (*overrides, f"fl_scene.H={repeats + 1}", "fabric.accelerator=cpu")
    setting, given = config.experiment(*words), torch.get_num_threads()
    floor = FloorProcess(words)
    runs: dict[int, Generator[Round]] = {}
    for ranks in numbers:
        with quietly():
            task = make_task(setting, set_up(setting))
        runs[ranks] = federate(task, make_executor(task, ranks))
    table = Table([], {ranks: [] for ranks in numbers})
    for round_idx in range(1, repeats + 2):
        plain = floor.seconds(round_idx, tested=True)
        if round_idx > 1:
            table.floor.append(plain)
        for ranks, run in runs.items():
            torch.set_num_threads(floor.threads if ranks == 1 else 1)
            began = time.perf_counter()
            next(run).test()
            if round_idx > 1:
                table.ours[ranks].append(time.perf_counter() - began)
    for run in runs.values():
        run.close()
    floor.close()
    torch.set_num_threads(given)  # last: a run that closes gives back the threads it was started with
    return table
