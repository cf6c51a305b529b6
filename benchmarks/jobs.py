"""The jobs whose rounds are timed."""

from collections.abc import Iterable

Jobs = dict[str, tuple[tuple[str, ...], int]]  # name -> overrides, rounds to time

THE_PAPERS = ("fedavg", "fedprox", "fedopt", "scaffold", "moon")  # algorithms
VGG9 = ("dataset=cifar10", "model=vgg9", "fl_scene.R=0.02", "fl_scene.E=1")
NARROW_VGG9 = (*VGG9, "model.width_factor=0.25")
MLP_1024 = "MLP 1024 on MNIST, K=100 R=0.1 E=5 (the paper's)"
ONE_RANK: Jobs = {
    MLP_1024: ((), 5),
    "VGG9 on CIFAR-10, K=100 R=0.02 E=1": (VGG9, 5),
    "784-10 on MNIST (only overhead)": (("model.depth=0",), 20),
}
OVER_RANKS: Jobs = {
    MLP_1024: ((), 5),
    "MLP 64 on MNIST, K=100 R=0.1 E=5": (("model.width=64",), 15),
    "VGG9 on CIFAR-10, K=100 R=0.02 E=1": (VGG9, 3),
}


def jobs_of(algorithms: Iterable[str]) -> Jobs:
    return {f"{name}, MLP 1024 on MNIST, E=5": ((f"algorithm={name}",), 4) for name in algorithms}
