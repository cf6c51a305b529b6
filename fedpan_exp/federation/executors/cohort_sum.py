"""The clients that one process trains in a round, summed as they finish."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

from torch import Tensor

from fedpan_exp.algorithms import CohortStats, CohortUpdate, LocalAccuracy, ServerState, WeightedSum
from fedpan_exp.federation.client import TrainedClient
from fedpan_exp.training import FitResult, FlatParameters

T = TypeVar("T")


class Measurements(NamedTuple):
    """What a process sends to the others in addition to its sums of vectors."""

    weight: float
    clients: int
    fits: list[FitResult]
    local_accuracies: list[LocalAccuracy]
    models: list[FlatParameters]
    up_bytes: int
    down_bytes: int
    seconds: float
    squared_norms: float


class CohortSum:
    """Running sums over clients: memory does not grow with their number, unless their models are needed."""

    def __init__(self, server: ServerState, needs_models: bool):
        self._server, self._needs_models = server, needs_models
        self._updates: WeightedSum | None = None
        self._models: list[FlatParameters] = []
        self.stats = CohortStats()

    def add(self, client: TrainedClient) -> None:
        update, stats = client.update, self.stats
        self._updates = self._updates or WeightedSum(like=update)
        self._updates.add(update)
        if self._needs_models:
            self._models.append(FlatParameters(update.weights, update.buffers).cpu_copy())
        stats.drift.add(update.weights - self._server.weights)
        stats.fits.append(client.fit)
        if client.local_accuracy:
            stats.local_accuracies.append(client.local_accuracy)
        stats.up_bytes += client.up_bytes
        stats.down_bytes += client.down_bytes
        stats.seconds += client.seconds

    def mean(self) -> CohortUpdate:
        update = self._sums.mean()
        update.stats, update.models = self.stats, self._models
        return update

    def vectors(self) -> list[Tensor]:
        """The sums to be added up over processes, in place."""
        assert self.stats.drift.delta_sum is not None
        return [*self._sums.vectors, self.stats.drift.delta_sum]

    def measurements(self) -> Measurements:
        stats, sums = self.stats, self._sums
        return Measurements(
            sums.weight,
            sums.clients,
            stats.fits,
            stats.local_accuracies,
            self._models,
            stats.up_bytes,
            stats.down_bytes,
            stats.seconds,
            float(stats.drift.squared_norms),
        )

    def merge(self, parts: Sequence[Measurements], positions: Iterable[int]) -> None:
        """Take over the measurements of all processes; `positions` are their clients' indices in the cohort."""
        positions, stats = list(positions), self.stats
        self._sums.weight = sum(part.weight for part in parts)
        self._sums.clients = stats.drift.clients = sum(part.clients for part in parts)
        stats.fits = _in_order(positions, chain(*(part.fits for part in parts)))
        stats.local_accuracies = [*chain(*(part.local_accuracies for part in parts))]
        if self._needs_models:
            self._models = _in_order(positions, chain(*(part.models for part in parts)))
        stats.up_bytes = sum(part.up_bytes for part in parts)
        stats.down_bytes = sum(part.down_bytes for part in parts)
        stats.seconds = sum(part.seconds for part in parts)
        stats.drift.squared_norms = sum(part.squared_norms for part in parts)

    @property
    def _sums(self) -> WeightedSum:
        assert self._updates, "a process trains at least one client per round"
        return self._updates


def _in_order(positions: list[int], items: Iterable[T]) -> list[T]:
    return [item for _, item in sorted(zip(positions, items, strict=True), key=lambda pair: pair[0])]
