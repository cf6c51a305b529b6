"""The job that all of them do: a round of FedAvg, 10 of 100 clients with 600 images each, and its test."""

import json
import sys
import time
from functools import cache
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

K, INVITED, E, B = 100, 10, 5, 64
LR = 0.05
SGD: dict[str, Any] = {"momentum": 0.9, "fused": True}
TEST_BATCH = 2_000
CLASSES = 10


class Job:
    """As the command line says: the file of tensors, the width of the hidden layers, the number of rounds."""

    def __init__(self) -> None:
        _, self.data, width, rounds = sys.argv
        self.width, self.rounds = int(width), int(rounds)
        self._ended: list[float] = []
        self._accuracies: list[float] = []

    def end_round(self, accuracy: float) -> None:
        """When it is tested."""
        self._ended.append(time.time())
        self._accuracies.append(accuracy)

    def report(self) -> None:
        """The last line a program prints. Who started it knows when that was, and how much memory it took."""
        print(json.dumps({"ended": self._ended, "accuracies": self._accuracies}), flush=True)


@cache
def tensors(path: str) -> dict[str, Tensor]:
    """train_x [60000, 784] and test_x, normalised; train_y and test_y; parts [100, 600]: whose image is whose."""
    return load_file(path)


@cache
def network(width: int) -> nn.Sequential:
    torch.manual_seed(0)
    hidden = [module for inputs in (784, width, width) for module in (nn.Linear(inputs, width), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, CLASSES))
