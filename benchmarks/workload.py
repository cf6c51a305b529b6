"""Count what training a network takes: floating-point operations per image, weights, layers."""

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from fedpan_exp.config import Experiment

BATCH_SIZE = 2  # BatchNorm cannot train on one image


@dataclass(frozen=True)
class Flops:
    """Operations per image in units of 10^9, by kind: a machine is not equally fast at both."""

    matrix_products: float
    convolutions: float

    @property
    def total(self) -> float:
        return self.matrix_products + self.convolutions


@dataclass(frozen=True)
class Workload:
    training: Flops  # forward and backward
    evaluation: Flops  # forward
    weights: int
    layers: int  # layers with weights


def workload_of(experiment: Experiment) -> Workload:
    net = experiment.network()
    x = torch.zeros(BATCH_SIZE, *experiment.dataset.shape)
    with FlopCounterMode(display=False) as training:
        net(x).sum().backward()
    with FlopCounterMode(display=False) as evaluation, torch.no_grad():
        net(x)
    layers = sum(any(True for _ in module.parameters(recurse=False)) for module in net.modules())
    return Workload(_flops(training), _flops(evaluation), sum(p.numel() for p in net.parameters()), layers)


def _flops(counter: FlopCounterMode) -> Flops:
    counts = counter.get_flop_counts()["Global"]
    convolutions = sum(count for operation, count in counts.items() if "convolution" in str(operation))
    return Flops(*(count / BATCH_SIZE / 1e9 for count in (sum(counts.values()) - convolutions, convolutions)))
