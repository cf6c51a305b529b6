"""A measurement repeated with other draws: its mean, and how far single ones lie from it."""

from collections.abc import Sequence
from statistics import fmean, stdev


def mean_and_deviation(name: str, values: Sequence[float]) -> dict[str, float]:
    return {name: fmean(values), "deviation": stdev(values) if len(values) > 1 else 0.0}
