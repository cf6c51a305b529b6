"""What can be measured of the clients of any round: each against the mean of all."""

from collections.abc import Sequence
from statistics import fmean
from typing import Protocol

from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.federation import Snapshot
from fedpan_exp.probes.activity import MatchingProbe, PreferenceProbe
from fedpan_exp.probes.drift import CosineProbe, DivergenceProbe, GradientVarianceProbe
from fedpan_exp.training import LocalTrainer


class Probe(Protocol):
    def __init__(self, trainer: LocalTrainer, clients: Clients, test: ImageTensors): ...

    def measure(self, kept: Snapshot) -> list[dict[str, float]]:
        """By layer, for each client of the round."""


PROBES: dict[str, type[Probe]] = {
    "divergence": DivergenceProbe,
    "gradient_variance": GradientVarianceProbe,
    "cosine": CosineProbe,
    "matching": MatchingProbe,
    "preference": PreferenceProbe,
}


def make_probes(names: Sequence[str], trainer: LocalTrainer, clients: Clients, test: ImageTensors) -> dict[str, Probe]:
    return {name: PROBES[name](trainer, clients, test) for name in names}


def measure(probes: dict[str, Probe], kept: Snapshot) -> dict[str, float]:
    """divergence/fc1 and so on, each the mean over the clients of the round."""
    values: dict[str, float] = {}
    for name, probe in probes.items():
        each = probe.measure(kept)
        values |= {f"{name}/{layer}": fmean(one[layer] for one in each) for layer in each[0]}
    return values
