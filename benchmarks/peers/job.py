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
    rounds: int  # measured per turn


def mlp(width: int, rounds: int) -> Task:
    settings = ("dataset=mnist", f"model.width={width}")
    title = f"MLP 784-{width}-{width}-{width}-10 on MNIST"
    return Task(title, settings, cohort_size=10, E=5, test_batch=2_000, rounds=rounds)


PLAIN_VGG9 = ("dataset=cifar10", "model=vgg9", "dataset.crop_padding=0", "dataset.flip=false")
NARROW_VGG9 = (*PLAIN_VGG9, "model.width_factor=0.25")
TASKS = {
    "mlp1024": mlp(1024, rounds=2),
    "mlp64": mlp(64, rounds=15),
    "vgg9": Task("VGG9 on CIFAR-10", PLAIN_VGG9, cohort_size=2, E=1, test_batch=100, rounds=1),
    "narrow_vgg9": Task("VGG9 x 0.25 on CIFAR-10", NARROW_VGG9, cohort_size=10, E=1, test_batch=500, rounds=1),
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
    if name.endswith("vgg9"):
        return _vgg9(divisor=4 if name == "narrow_vgg9" else 1)
    width = int(name.removeprefix("mlp"))
    hidden = [module for inputs in (784, width, width) for module in (nn.Linear(inputs, width), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, CLASSES))


def _vgg9(divisor: int) -> nn.Sequential:
    """VGG9 with all widths divided by `divisor`."""
    layers: list[nn.Module] = []
    channels = 3
    for widths in ((32, 64), (128, 128), (256, 256)):
        for width in widths:
            layers += [nn.Conv2d(channels, width // divisor, 3, padding=1), nn.ReLU()]
            channels = width // divisor
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    hidden = 512 // divisor
    for inputs in (channels * 4 * 4, hidden):
        layers += [nn.Linear(inputs, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, CLASSES))
