"""One round as it went: who took part, what they measured, what they sent."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from torch import Tensor

from fedpan_exp.algorithms import ServerState
from fedpan_exp.federation.snapshot import Snapshot
from fedpan_exp.training import EvalResult, FitResult

T = TypeVar("T")


class Divergence:
    """How far clients end from each other: the root mean square of |w_k - mean w|, as a running sum."""

    def __init__(self) -> None:
        self.ways: Tensor | None = None
        self.squares: Tensor | float = 0.0
        self.clients = 0

    def add(self, way: Tensor) -> None:
        """From where all of them started to where one of them ended; the vector is ours from now on."""
        self.ways = way if self.ways is None else self.ways.add_(way)
        self.squares += way.dot(way)
        self.clients += 1

    def value(self) -> float:
        assert self.ways is not None, "a round has at least one client"
        mean = self.ways / self.clients
        return math.sqrt(max(0.0, float(self.squares / self.clients - mean.dot(mean))))


@dataclass
class Round:
    """One round as it went; the server is live and moves on with the next."""

    index: int  # from 1
    server: ServerState
    clients: list[int]
    test: Callable[[], EvalResult] = field(repr=False)  # the server's weights on the global test set, when asked for
    fits: list[FitResult] = field(default_factory=list)
    local_scores: list[tuple[float, float, int]] = field(default_factory=list)  # before, after, samples
    divergence: Divergence = field(default_factory=Divergence)
    kept: Snapshot | None = None
    up_bytes: int = 0
    down_bytes: int = 0
    local_seconds: float = 0.0
    seconds: float = 0.0

    def measured(self) -> tuple[Any, ...]:
        """On one rank, to be told to the others."""
        sums = (self.up_bytes, self.down_bytes, self.local_seconds, float(self.divergence.squares))
        return (self.fits, self.local_scores, self.kept.locals if self.kept else [], *sums)

    def join(self, measured: Iterable[tuple[Any, ...]], order: Iterable[int]) -> None:
        """Of all ranks; `order` is where the clients of one after the other belong in the round."""
        fits, scores, models, *sums = zip(*measured, strict=True)
        places = list(order)
        self.fits, self.local_scores = _in_order(places, chain(*fits)), [*chain(*scores)]
        if self.kept:
            self.kept.locals = _in_order(places, chain(*models))
        self.up_bytes, self.down_bytes, self.local_seconds, self.divergence.squares = map(sum, sums)
        self.divergence.clients = len(self.fits)

    def metrics(self) -> dict[str, float]:
        samples = sum(fit.samples for fit in self.fits)
        values = {
            "train/loss": sum(fit.loss * fit.samples for fit in self.fits) / samples,
            "train/samples": samples,
            "train/steps": sum(fit.steps for fit in self.fits),
            "clients/divergence": self.divergence.value(),
            "comm/up_bytes": self.up_bytes,
            "comm/down_bytes": self.down_bytes,
            "time/local_s": self.local_seconds,
            "time/round_s": self.seconds,
        }
        held_out = sum(count for *_, count in self.local_scores)
        if held_out:
            values["local/pre_acc"] = sum(pre * count for pre, _, count in self.local_scores) / held_out
            values["local/post_acc"] = sum(post * count for _, post, count in self.local_scores) / held_out
        return values


def _in_order(places: list[int], items: Iterable[T]) -> list[T]:
    return [item for _, item in sorted(zip(places, items, strict=True), key=lambda pair: pair[0])]
