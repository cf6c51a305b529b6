"""python -m benchmarks.scaling: seconds per round by clients, K, network and ranks, and a model fitted to them.

Run it on an otherwise idle machine: two ranks need two cores.
"""

import os
from dataclasses import dataclass, replace
from itertools import product
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls

from benchmarks.workload import Workload, workload_of
from fedpan_exp import config
from fedpan_exp.federation import federate, make_executor
from fedpan_exp.studies import load_studies
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.console import console, quietly

CIFAR = ("dataset=cifar10", "fl_scene=cross_device")
SCENES = {  # name: overrides, clients per round
    "MLP 64, K=1,000": (("model.width=64", "fl_scene.K=1000"), (10,)),
    "MLP 64": (("model.width=64",), (4, 10, 20)),
    "MLP 256": (("model.width=256",), (4, 10, 20)),
    "MLP 1024": (("model.width=1024",), (4, 10, 20)),
    "VGG9 on CIFAR-10": ((*CIFAR, "model=vgg9"), (2, 4)),
    "ResNet20 on CIFAR-10": ((*CIFAR, "model=resnet20"), (2,)),
}
ROUNDS = 3  # the first warms up; the best of the others counts
TERMS = (
    "per round",
    "per 10^9 operations in matrix products",
    "per 10^9 operations in convolutions",
    "per step",
    "per step and 10^6 weights",
)


@dataclass
class Point:
    name: str
    clients: int
    ranks: int
    terms: NDArray[np.float64]  # number of each of TERMS on the busiest rank
    seconds: float


@dataclass
class Model:
    """Predicts the seconds of a round as the sum of its terms times their costs."""

    costs: NDArray[np.float64]

    @classmethod
    def fit(cls, points: list[Point]) -> "Model":
        """Fit by non-negative least squares of the relative errors: short rounds count as much as long ones."""
        rows = np.array([point.terms / point.seconds for point in points])
        return cls(nnls(rows, np.ones(len(points)))[0])

    def seconds(self, terms: NDArray[np.float64]) -> float:
        return float(terms @ self.costs)

    def error(self, point: Point) -> float:
        return self.seconds(point.terms) / point.seconds - 1


def terms_of(workload: Workload, samples: float, steps: float, fraction: float = 1.0) -> NDArray[np.float64]:
    """The terms of a round; `fraction` is the part of its clients that the busiest rank trains."""
    flops = workload.training
    training = [flops.matrix_products * samples, flops.convolutions * samples, steps, steps * workload.weights / 1e6]
    return np.array([1.0, *(fraction * term for term in training)])


def measure(rank_counts: tuple[int, ...]) -> list[Point]:
    """Measure with one thread per rank, E=1, clients of equal size and no evaluation."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    points = []
    for name, (overrides, cohort_sizes) in SCENES.items():
        setting = config.experiment(
            *overrides, f"fl_scene.H={ROUNDS}", "fl_scene.E=1", "fl_scene.partition=iid", "fabric.accelerator=cpu"
        )
        with quietly():
            setup = set_up(setting)
        workload = workload_of(setting)
        for clients, ranks in product(cohort_sizes, rank_counts):
            scene = replace(setting.fl_scene, R=clients / len(setup.clients))
            task = replace(make_task(setting, setup), scene=scene)
            run = federate(task, make_executor(task, ranks))
            rounds = [(round_.seconds, round_.metrics()) for round_ in run]
            seconds, metrics = min(rounds[1:], key=lambda pair: pair[0])
            fraction = ceil(clients / ranks) / clients
            terms = terms_of(workload, metrics["train/samples"], metrics["train/steps"], fraction)
            points.append(Point(name, clients, ranks, terms, seconds))
    torch.set_num_threads(threads)
    return points


def show(points: list[Point], model: Model) -> None:
    console.print("[bold]Seconds per round[/bold], one thread per rank, E=1, no evaluation")
    console.print(f"  {'':24}{'clients':>8}{'ranks':>7}{'measured':>11}{'model':>10}{'error':>8}")
    for point in points:
        numbers = f"{point.seconds:9.3f} s{model.seconds(point.terms):8.3f} s{model.error(point):+8.0%}"
        console.print(f"  {point.name:<24}{point.clients:8}{point.ranks:7}{numbers}")
    console.print("\n[bold]Cost model[/bold]; all but the first are divided among the ranks")
    for name, cost in zip(TERMS, model.costs, strict=True):
        console.print(f"  {name:<40}{cost * 1e3:9.3f} ms")
    fitted = np.abs([model.error(point) for point in points])
    left_out = np.abs([Model.fit([p for p in points if p is not point]).error(point) for point in points])
    console.print(f"  error: {fitted.mean():.0%} on average, {fitted.max():.0%} at most; ", end="")
    console.print(f"leaving one point out of the fit: {left_out.mean():.0%} on average, {left_out.max():.0%} at most")


def main() -> None:
    config.register(load_studies())
    points = measure((1, os.cpu_count() or 1))
    show(points, Model.fit(points))


if __name__ == "__main__":
    main()
