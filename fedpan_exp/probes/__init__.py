"""Probes: measurements on the clients of a round, each compared with the mean of all."""

from collections.abc import Sequence
from statistics import fmean
from typing import Protocol

from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.federation import Snapshot
from fedpan_exp.probes.activity import MatchingProbe, PreferenceProbe
from fedpan_exp.probes.drift import CosineProbe, DivergenceProbe, GradientVarianceProbe
from fedpan_exp.probes.identity import BarrierProbe, MatchingGapProbe, SwapCostProbe
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.training import LocalTrainer


class Probe(Protocol):
    def __init__(self, trainer: LocalTrainer, clients: Clients, test: ImageTensors): ...

    def measure(self, snapshot: Snapshot) -> list[dict[str, float]]:
        """One dict of layer -> value per client of the round."""


PROBES: dict[str, type[Probe]] = {
    "divergence": DivergenceProbe,
    "gradient_variance": GradientVarianceProbe,
    "cosine": CosineProbe,
    "matching": MatchingProbe,
    "preference": PreferenceProbe,
    "barrier": BarrierProbe,
    "matching_gap": MatchingGapProbe,
    "swap_cost": SwapCostProbe,
}


def make_probes(names: Sequence[str], trainer: LocalTrainer, clients: Clients, test: ImageTensors) -> dict[str, Probe]:
    return {name: PROBES[name](trainer, clients, test) for name in names}


def measure(probes: dict[str, Probe], snapshot: Snapshot) -> dict[str, float]:
    """Metrics such as divergence/fc1, each averaged over the clients of the round."""
    values: dict[str, float] = {}
    for name, probe in probes.items():
        per_client = probe.measure(snapshot)
        try:
            values |= {f"{name}/{layer}": fmean(client[layer] for client in per_client) for layer in per_client[0]}
        except (TypeError, LookupError):  # a plugin's
            rule = "return one dict of layer -> number per client of the round"
            raise ConfigError(f"probes={name} must {rule}, got {per_client!r:.100}") from None
    return values
