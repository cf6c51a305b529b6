"""A round and its test over several processes, against the floor in one with as many threads as serve it best."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from benchmarks.floor import Floor
from fedpan_exp import config
from fedpan_exp.federation import Round, federate
from fedpan_exp.studies.setup import make_world


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
    setting = config.experiment(*overrides, f"fl_scene.H={repeats + 1}", "fabric.accelerator=cpu")
    scene, training, given = setting.fl_scene, setting.training, torch.get_num_threads()
    worlds = {ranks: make_world(setting) for ranks in numbers}
    world = worlds[numbers[0]]
    images = world.clients.images
    floor = Floor(setting.network(), images.x, images.y, world.clients.pixels, world.clients.train)
    threads = min({1, given}, key=lambda number: _trial(floor, number, scene.B))
    runs: dict[int, Iterator[Round]] = {}
    for ranks, its in worlds.items():
        runs[ranks] = federate(
            setting.algorithm, its.trainer, its.clients, scene, setting.seed, test=its.test, ranks=ranks
        )
    table = Table([], {ranks: [] for ranks in numbers})
    for turn in range(1, repeats + 2):
        torch.set_num_threads(threads)
        began = time.perf_counter()
        floor.round(
            scene.chosen(len(world.clients), turn, setting.seed), scene.E, scene.B, training.lr, training.warmup_length
        )
        floor.test(world.test)
        plain = time.perf_counter() - began
        for ranks, run in runs.items():
            torch.set_num_threads(threads if ranks == 1 else 1)
            began = time.perf_counter()
            next(run).test()
            if turn > 1:
                table.ours[ranks].append(time.perf_counter() - began)
        if turn > 1:
            table.floor.append(plain)
    torch.set_num_threads(given)
    return table


def _trial(floor: Floor, threads: int, B: int) -> float:
    """Seconds of one client, the second time. Small nets are slower on two threads than on one, by far if the machine
    is busy."""
    torch.set_num_threads(threads)
    for _ in range(2):
        began = time.perf_counter()
        floor.round([0], 1, B, 0.01, 1)
    return time.perf_counter() - began
