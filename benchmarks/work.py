"""What it takes to train a network: floating-point operations of a sample, weights, layers."""

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from fedpan_exp.config import Experiment

IMAGES = 2  # BatchNorm cannot train on one


@dataclass(frozen=True)
class Flops:
    """Of one image, in units of 10^9: a machine is not equally fast at both."""

    matrices: float
    convolutions: float

    @property
    def total(self) -> float:
        return self.matrices + self.convolutions


@dataclass(frozen=True)
class Work:
    training: Flops  # forward and backward
    testing: Flops  # forward
    weights: int
    layers: int  # that have weights


def work_of(experiment: Experiment) -> Work:
    net = experiment.network()
    x = torch.zeros(IMAGES, *experiment.dataset.shape)
    with FlopCounterMode(display=False) as training:
        net(x).sum().backward()
    with FlopCounterMode(display=False) as testing, torch.no_grad():
        net(x)
    layers = sum(any(True for _ in module.parameters(recurse=False)) for module in net.modules())
    return Work(_flops(training), _flops(testing), sum(p.numel() for p in net.parameters()), layers)


def _flops(counter: FlopCounterMode) -> Flops:
    counts = counter.get_flop_counts()["Global"]
    convolutions = sum(count for operation, count in counts.items() if "convolution" in str(operation))
    return Flops(*(count / IMAGES / 1e9 for count in (sum(counts.values()) - convolutions, convolutions)))
