"""The jobs to compare: rounds of FedAvg with evaluation; a few of 100 clients of equal size train per round."""

import json
import sys
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

K, B, LR = 100, 64, 0.05
SGD: dict[str, Any] = {"momentum": 0.9, "fused": True}
CLASSES = 10


@dataclass(frozen=True)
class Task:
    title: str
    settings: tuple[str, ...]  # equivalent overrides for fedpan_exp
    cohort_size: int  # clients per round
    E: int
    test_batch: int  # the fastest size on two cores
    rounds: int  # measured per repeat
    repeats: int = 2


def mlp(width: int) -> Task:
    settings = ("dataset=mnist", f"model.width={width}")
    title, (rounds, repeats) = f"MLP 784-{width}-{width}-{width}-10 on MNIST", (5, 2) if width > 64 else (15, 5)
    return Task(title, settings, cohort_size=10, E=5, test_batch=2_000, rounds=rounds, repeats=repeats)


PLAIN_CIFAR = ("dataset=cifar10", "model=vgg9", "dataset.crop_padding=0", "dataset.flip=false")
TASKS = {
    "mlp1024": mlp(1024),
    "mlp64": mlp(64),
    "vgg9": Task("VGG9 on CIFAR-10", PLAIN_CIFAR, cohort_size=2, E=1, test_batch=100, rounds=1),
}


class Job:
    """The job named on the command line: the file of tensors, the task, the number of rounds."""

    def __init__(self) -> None:
        _, self.data, self.name, rounds = sys.argv
        self.task, self.rounds = TASKS[self.name], int(rounds)
        self._ended: list[float] = []
        self._accuracies: list[float] = []

    def end_round(self, accuracy: float) -> None:
        """Call after the evaluation of each round."""
        self._ended.append(time.time())
        self._accuracies.append(accuracy)

    def report(self) -> None:
        """Print the result as the last line; start time and memory are measured by the parent process."""
        print(json.dumps({"ended": self._ended, "accuracies": self._accuracies}), flush=True)


@cache
def tensors(path: str) -> dict[str, Tensor]:
    """train_x, test_x (normalised), train_y, test_y, and parts [100, images per client]: indices into train_x."""
    return load_file(path)


@cache
def network(name: str) -> nn.Sequential:
    torch.manual_seed(0)
    if name == "vgg9":
        return _vgg9()
    width = int(name.removeprefix("mlp"))
    hidden = [module for inputs in (784, width, width) for module in (nn.Linear(inputs, width), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, CLASSES))


def _vgg9() -> nn.Sequential:
    layers: list[nn.Module] = []
    channels = 3
    for widths in ((32, 64), (128, 128), (256, 256)):
        for width in widths:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    for inputs in (256 * 4 * 4, 512):
        layers += [nn.Linear(inputs, 512), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(512, CLASSES))
