"""Misalignment: express a loss of accuracy as the ratio of misplaced neurons that costs as much."""

from collections.abc import Sequence
from math import inf, nan
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom

from fedpan_exp.alignment.kept_ratio import kept_ratio
from fedpan_exp.alignment.shuffle import sample_permutation

NEGLIGIBLE = 1e-6  # probability of the shuffle counts left out
INTERVAL = (0.025, 0.975)  # quantiles
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
    ratio = _cross(x, curve.mean(1), accuracy.mean())
    if seeds < 2:
        return Reading(ratio)
    draws = generator.integers(seeds, size=(2000, seeds))
    resampled = np.sort([_cross(x, curve[:, drawn].mean(1), accuracy[drawn].mean()) for drawn in draws])
    quantiles = INTERVAL if seeds >= MIN_SEEDS else (0.0, 1.0)
    low, high = (float(resampled[int(quantile * (len(resampled) - 1))]) for quantile in quantiles)
    return Reading(ratio, low, high)


def _cross(x: Numbers, y: Numbers, target: float) -> float:
    """The x at which y(x), made non-increasing by pooling adjacent violators, equals the target."""
    blocks = [(x[i], y[i], 1) for i in np.argsort(x)]
    falling: list[tuple[float, float, int]] = []
    for block in blocks:
        falling.append(block)
        while len(falling) > 1 and falling[-2][1] <= falling[-1][1]:
            (x1, y1, n1), (x2, y2, n2) = falling.pop(-2), falling.pop()
            n = n1 + n2
            falling.append(((n1 * x1 + n2 * x2) / n, (n1 * y1 + n2 * y2) / n, n))
    xs, ys, _ = map(np.array, zip(*falling, strict=True))
    if target > ys[0]:
        return -inf
    return inf if target < ys[-1] else float(np.interp(-target, -ys, xs))
