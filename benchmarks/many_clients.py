"""Rounds of 10 among up to a million virtual clients of CIFAR-10: K must cost neither time nor memory."""

import statistics
import time
from collections.abc import Generator
from dataclasses import dataclass

from benchmarks.processes import peak_memory
from fedpan_exp import config
from fedpan_exp.federation import Round, federate
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.console import quietly

COHORT_SIZE = 10
CLIENT_COUNTS = (100, 1_000, 10_000, 100_000, 1_000_000)


@dataclass
class Scaling:
    """What a run costs by its number of clients."""

    clients: int
    first_round_s: float  # from the command to the end of a run of one round
    peak_mb: float
    round_s: float
    ratio: float  # of a round to one with the fewest clients, median of alternating rounds


def overrides_for(clients: int, rounds: int) -> tuple[str, ...]:
    scene = {"partition": "dirichlet_virtual", "K": clients, "R": COHORT_SIZE / clients, "H": rounds}
    settings = (f"fl_scene.{name}={value}" for name, value in scene.items())
    return ("dataset=cifar10", "model=mlp", "model.width=64", "ranks=1", *settings)


def scaling(repeats: int = 60) -> list[Scaling]:
    seconds: dict[int, list[float]] = {K: [] for K in CLIENT_COUNTS}
    runs = {K: rounds_of(K, repeats + 1) for K in CLIENT_COUNTS}
    for _ in range(repeats + 1):
        for K, run in runs.items():
            started = time.perf_counter()
            next(run)
            seconds[K].append(time.perf_counter() - started)
    results = []
    for K in CLIENT_COUNTS:
        pairs = zip(seconds[K][1:], seconds[CLIENT_COUNTS[0]][1:], strict=True)  # the first round warms up
        ratio = statistics.median(many / few for many, few in pairs)
        started = time.perf_counter()
        peak = peak_memory(*overrides_for(K, rounds=1))
        first_round = time.perf_counter() - started
        results.append(Scaling(K, first_round, peak, statistics.median(seconds[K][1:]), ratio))
    return results


def rounds_of(clients: int, rounds: int) -> Generator[Round]:
    setting = config.experiment(*overrides_for(clients, rounds))
    with quietly():
        return federate(make_task(setting, set_up(setting)))
