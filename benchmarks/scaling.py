"""python -m benchmarks.scaling: seconds a round against clients, K, network and ranks, and a model fitted to them.

Only on a machine that does nothing else: two ranks need two cores.
"""

import os
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls

from benchmarks.work import Work, work_of
from fedpan_exp import config
from fedpan_exp.federation import federate, make_executor
from fedpan_exp.studies import load_studies
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.console import console, quietly

CIFAR = ("dataset=cifar10", "fl_scene=cross_device")
SCENES = {  # name: settings, clients a round
    "MLP 64, K=1,000": (("model.width=64", "fl_scene.K=1000"), (10,)),
    "MLP 64": (("model.width=64",), (4, 10, 20)),
    "MLP 256": (("model.width=256",), (4, 10, 20)),
    "MLP 1024": (("model.width=1024",), (4, 10, 20)),
    "VGG9 on CIFAR-10": ((*CIFAR, "model=vgg9"), (2, 4)),
    "ResNet20 on CIFAR-10": ((*CIFAR, "model=resnet20"), (2,)),
}
ROUNDS = 3  # the first warms up, the best of the others counts
TERMS = (
    "a round",
    "10^9 operations in matrix products",
    "10^9 operations in convolutions",
    "a step",
    "a step and 10^6 weights",
)


@dataclass
class Point:
    name: str
    clients: int
    ranks: int
    terms: NDArray[np.float64]  # how often each of TERMS
    seconds: float


@dataclass
class Model:
    """Seconds = the sum of terms times their costs; what clients do is divided by the ranks."""

    costs: NDArray[np.float64]

    @classmethod
    def fitted(cls, points: list[Point]) -> "Model":
        """Non-negative least squares of the relative errors: a short round counts as much as a long one."""
        rows = np.array([point.terms / point.seconds for point in points])
        return cls(nnls(rows, np.ones(len(points)))[0])

    def seconds(self, terms: NDArray[np.float64]) -> float:
        return float(terms @ self.costs)

    def error(self, point: Point) -> float:
        return self.seconds(point.terms) / point.seconds - 1


def terms_of(work: Work, samples: float, steps: float, share: float = 1.0) -> NDArray[np.float64]:
    """Of a round; `share` is the part of it that the busiest rank has."""
    flops = work.training
    own = [flops.matrices * samples, flops.convolutions * samples, steps, steps * work.weights / 1e6]
    return np.array([1.0, *(share * term for term in own)])


def measure(ranks: tuple[int, ...]) -> list[Point]:
    """A thread a rank, E=1, equal parts, no test."""
    given = torch.get_num_threads()
    torch.set_num_threads(1)
    points = []
    for name, (overrides, cohort_size) in SCENES.items():
        setting = config.experiment(
            *overrides, f"fl_scene.H={ROUNDS}", "fl_scene.E=1", "fl_scene.partition=iid", "fabric.accelerator=cpu"
        )
        with quietly():
            setup = set_up(setting)
        work = work_of(setting)
        for clients, number in product(cohort_size, ranks):
            scene = replace(setting.fl_scene, R=clients / len(setup.clients))
            task = replace(make_task(setting, setup), scene=scene)
            run = federate(task, make_executor(task, number))
            rounds = [(this.seconds, this.metrics()) for this in run]
            seconds, metrics = min(rounds[1:], key=lambda pair: pair[0])
            share = -(-clients // number) / clients
            terms = terms_of(work, metrics["train/samples"], metrics["train/steps"], share)
            points.append(Point(name, clients, number, terms, seconds))
    torch.set_num_threads(given)
    return points


def show(points: list[Point], model: Model) -> None:
    console.print("[bold]Seconds a round[/bold], a thread a rank, E=1, no test")
    console.print(f"  {'':24}{'clients':>8}{'ranks':>7}{'measured':>11}{'model':>10}{'error':>8}")
    for point in points:
        numbers = f"{point.seconds:9.3f} s{model.seconds(point.terms):8.3f} s{model.error(point):+8.0%}"
        console.print(f"  {point.name:<24}{point.clients:8}{point.ranks:7}{numbers}")
    console.print("\n[bold]The model[/bold]: what each costs; all but the first are divided by the ranks")
    for name, cost in zip(TERMS, model.costs, strict=True):
        console.print(f"  {name:<40}{cost * 1e3:9.3f} ms")
    own = np.abs([model.error(point) for point in points])
    unseen = np.abs([Model.fitted([p for p in points if p is not point]).error(point) for point in points])
    console.print(f"  error: {own.mean():.0%} on average, {own.max():.0%} at most; ", end="")
    console.print(f"of a round that it was not fitted to {unseen.mean():.0%}, {unseen.max():.0%} at most")


def main() -> None:
    config.register(load_studies())
    points = measure((1, os.cpu_count() or 1))
    show(points, Model.fitted(points))


if __name__ == "__main__":
    main()
