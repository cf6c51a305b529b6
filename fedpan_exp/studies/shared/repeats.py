"""Mean and standard deviation of repeated measurements."""

from collections.abc import Sequence
from statistics import fmean, stdev


def mean_and_deviation(name: str, values: Sequence[float]) -> dict[str, float]:
    return {name: fmean(values), "deviation": stdev(values) if len(values) > 1 else 0.0}
