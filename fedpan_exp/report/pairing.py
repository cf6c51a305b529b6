"""PANs off and on, pair by pair: the difference, its interval, how often on wins."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, t

from fedpan_exp.report.runs import VALUE, Run

LEVEL = 0.95  # of intervals, where there are pairs enough
ENOUGH = 6  # pairs for that
RESAMPLES = 4000


@dataclass(frozen=True)
class Paired:
    """On minus off, each pair equal in everything but the PAN."""

    differences: tuple[float, ...]

    @property
    def n(self) -> int:
        return len(self.differences)

    @property
    def mean(self) -> float:
        return float(np.mean(self.differences))

    @property
    def deviation(self) -> float | None:
        return float(np.std(self.differences, ddof=1)) if self.n > 1 else None

    @property
    def wins(self) -> float:
        """Share of pairs in which on is better; a tie counts half."""
        signs = np.sign(self.differences)
        return float(np.mean(signs > 0) + np.mean(signs == 0) / 2)

    @property
    def level(self) -> float | None:
        """What the interval can promise. Means of resamples lie between the smallest and the largest value, and with n
        values the truth lies between those with a chance of 1 - 2^(1-n): below 95% for fewer than six."""
        return min(LEVEL, 1 - 2.0 ** (1 - self.n)) if self.n > 2 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        return bootstrap(self.differences) if self.n > 2 else None


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """The percentile bootstrap of the mean at 95%, widened for few values as Student's t is (Hesterberg, 2015): plain
    percentiles are too narrow by sqrt(n / (n - 1)) and take the normal's quantile. Fewer than six: all of its range."""
    n, sample = len(values), np.asarray(values)
    if n < ENOUGH:
        return float(sample.min()), float(sample.max())
    draws = np.random.default_rng(0).integers(0, n, (RESAMPLES, n))
    tail = norm.cdf(-np.sqrt(n / (n - 1)) * t.ppf((1 + LEVEL) / 2, n - 1))
    low, high = np.quantile(sample[draws].mean(1), [tail, 1 - tail])
    return float(low), float(high)


def pairs(runs: Iterable[Run], value: str = VALUE) -> list[tuple[Run, Run]]:
    """(off, on), everything equal but the PAN."""
    whole = [run for run in runs if run.whole and run.number(value) is not None]
    off = {run.key("pan"): run for run in whole if run.is_off}
    return [(off[run.key("pan")], run) for run in whole if not run.is_off and run.key("pan") in off]


def paired(runs: Iterable[Run], value: str = VALUE) -> Paired:
    return Paired(tuple(_gain(off, on, value) for off, on in pairs(runs, value)))


def _gain(off: Run, on: Run, value: str) -> float:
    low, high = off.number(value), on.number(value)
    return float("nan") if low is None or high is None else high - low  # pairs() takes runs that have it
