"""PANs off and on in pairs: the difference, its interval, the win rate."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, t

from fedpan_exp.report.runs import VALUE, Run

LEVEL = 0.95  # of intervals, given enough pairs
ENOUGH = 6  # pairs
RESAMPLES = 4000


@dataclass(frozen=True)
class Paired:
    """Differences on - off; the runs of a pair differ only in the PAN."""

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
        """Fraction of pairs in which on is better; a tie counts half."""
        signs = np.sign(self.differences)
        return float(np.mean(signs > 0) + np.mean(signs == 0) / 2)

    @property
    def level(self) -> float | None:
        """Coverage of the interval. Means of resamples are between the smallest and the largest of n values, and so is
        the true median with probability 1 - 2^(1-n), which is below 95% for fewer than six."""
        return min(LEVEL, 1 - 2.0 ** (1 - self.n)) if self.n > 2 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        return bootstrap(self.differences) if self.n > 2 else None


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """Percentile bootstrap of the mean at 95%, widened for few values as Student's t is (Hesterberg, 2015): plain
    percentiles are too narrow by sqrt(n / (n - 1)) and use the normal quantile. Fewer than six values: their range."""
    n, sample = len(values), np.asarray(values)
    if n < ENOUGH:
        return float(sample.min()), float(sample.max())
    draws = np.random.default_rng(0).integers(0, n, (RESAMPLES, n))
    tail = norm.cdf(-np.sqrt(n / (n - 1)) * t.ppf((1 + LEVEL) / 2, n - 1))
    low, high = np.quantile(sample[draws].mean(1), [tail, 1 - tail])
    return float(low), float(high)


def pairs(runs: Iterable[Run], value: str = VALUE) -> list[tuple[Run, Run]]:
    """Pairs (off, on) of runs that differ only in the PAN."""
    complete = [run for run in runs if run.complete and run.number(value) is not None]
    off = {run.key("pan"): run for run in complete if run.is_off}
    return [(off[run.key("pan")], run) for run in complete if not run.is_off and run.key("pan") in off]


def paired(runs: Iterable[Run], value: str = VALUE) -> Paired:
    return Paired(tuple(_gain(off, on, value) for off, on in pairs(runs, value)))


def _gain(off: Run, on: Run, value: str) -> float:
    low, high = off.number(value), on.number(value)
    return float("nan") if low is None or high is None else high - low  # never: pairs() takes only runs with a value
