"""Misalignment: express a loss of accuracy as the ratio of misplaced neurons that costs as much."""

from collections.abc import Sequence
from math import inf, nan
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.stats import binom, bootstrap

from fedpan_exp.alignment.kept_ratio import kept_ratio
from fedpan_exp.alignment.shuffle import sample_permutation

NEGLIGIBLE = 1e-6  # probability of the shuffle counts left out
INTERVAL = (0.025, 0.975)  # quantiles
RESAMPLES = 2000
MIN_SEEDS = 6  # for these quantiles; with fewer seeds the interval is the range of the resamples

Numbers = NDArray[np.float64]


class Reading(NamedTuple):
    """Ratio of misplaced neurons; out of range if the accuracy is above (-inf) or below (inf) the whole curve."""

    ratio: float
    low: float = nan  # no interval from fewer than two seeds
    high: float = nan


def misplaced_ratio(
    N_sf: float, P_sf: float, neurons: int, steps: int, repeats: int, generator: torch.Generator
) -> float:
    """Expected 1 - R_kept of local training: exact over the number of shuffles, simulated over their permutations."""
    shuffle_probability = min(1.0, N_sf / steps)
    ratio, remaining = 0.0, 1.0  # remaining: the probability of more shuffles than counted so far
    perms = [torch.arange(neurons) for _ in range(repeats)]
    for shuffles in range(steps + 1):
        probability = float(binom.pmf(shuffles, steps, shuffle_probability))
        moved = 1 - fmean(map(kept_ratio, perms))
        ratio, remaining = ratio + probability * moved, remaining - probability
        if remaining < NEGLIGIBLE:
            break
        perms = [perm[sample_permutation(neurons, P_sf, generator)] for perm in perms]
    return ratio


def read(misplaced: Sequence[float], curve: Numbers, accuracy: Numbers, generator: np.random.Generator) -> Reading:
    """The ratio at which the curve of accuracies [points, seeds] over `misplaced` has the mean of `accuracy` [seeds].

    The interval is a bootstrap over seeds, which are resampled jointly for the curve and the accuracies: runs of one
    seed have the same initial weights and the same cohort in each round.
    """
    x, seeds = np.asarray(misplaced), len(accuracy)

    def reading(*samples: Numbers) -> float:
        *points, level = (sample.mean() for sample in samples)
        return _cross(x, np.array(points), level)

    ratio = reading(*curve, accuracy)
    if seeds < 2:
        return Reading(ratio)
    options = {"paired": True, "vectorized": False, "n_resamples": RESAMPLES, "method": "percentile", "rng": generator}
    with np.errstate(invalid="ignore"):  # scipy also computes an error, which resamples out of range do not have
        resampled = bootstrap((*curve, accuracy), reading, **options).bootstrap_distribution
    quantiles = INTERVAL if seeds >= MIN_SEEDS else (0.0, 1.0)
    low, high = np.quantile(resampled, quantiles, method="lower")  # does not interpolate: they may be infinite
    return Reading(ratio, float(low), float(high))


def _cross(x: Numbers, y: Numbers, target: float) -> float:
    """The x at which y(x), made non-increasing, equals the target; points of equal y are pooled."""
    order = np.argsort(x)
    falling = isotonic_regression(y[order], increasing=False).x
    ys, block = np.unique(falling, return_inverse=True)
    xs = np.bincount(block, x[order]) / np.bincount(block)
    if target > ys[-1]:
        return -inf
    return inf if target < ys[0] else float(np.interp(target, ys, xs))
