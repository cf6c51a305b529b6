"""Time a round of 10 clients sampled from 100 and from 10,000 of the same size: K must not make it slower."""

import statistics
import time
from dataclasses import replace

from fedpan_exp import config
from fedpan_exp.data import Clients
from fedpan_exp.federation import federate
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.console import quietly

MANY, FEW, COHORT_SIZE = 10_000, 100, 10


def round_time_ratio(repeats: int = 100) -> float:
    """Time of a round with many clients divided by that with few; the rounds of both alternate."""
    setting = config.experiment(f"fl_scene.K={MANY}", "fl_scene.partition=iid", "model.width=64", "ranks=1")
    with quietly():
        setup = set_up(setting)
    few = Clients(setup.clients.images, setup.clients.transform, setup.split.parts[:FEW], 0.0, setting.seed)
    runs = {}
    for clients in (few, setup.clients):
        scene = replace(setting.fl_scene, K=len(clients), R=COHORT_SIZE / len(clients), H=repeats + 1)
        runs[len(clients)] = federate(replace(make_task(setting, setup), clients=clients, scene=scene))
    seconds: dict[int, list[float]] = {K: [] for K in runs}
    for _ in range(repeats + 1):
        for K, run in runs.items():
            started = time.perf_counter()
            next(run)
            seconds[K].append(time.perf_counter() - started)
    return statistics.median(seconds[MANY][1:]) / statistics.median(seconds[FEW][1:])
