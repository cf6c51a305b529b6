"""The misalignment thermometer: a loss of accuracy, read as the share of misplaced neurons that costs as much."""

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

NEGLIGIBLE = 1e-6  # a probability
INTERVAL = (0.025, 0.975)
ENOUGH = 6  # seeds for that; the interval of fewer is all that their resamples give

Numbers = NDArray[np.float64]


class Reading(NamedTuple):
    """Misplaced neurons, a share; -inf is above and inf below all accuracies of the curve: out of range."""

    share: float
    low: float = nan  # no interval from less than two seeds
    high: float = nan


def misplaced_ratio(
    N_sf: float, P_sf: float, neurons: int, steps: int, repeats: int, generator: torch.Generator
) -> float:
    """1 - R_kept of a visit, in expectation: exact in how many shuffles there are, simulated in what they do."""
    chance = min(1.0, N_sf / steps)
    share, left = 0.0, 1.0  # left: the probability of more shuffles than counted
    permutations = [torch.arange(neurons) for _ in range(repeats)]
    for shuffles in range(steps + 1):
        probability = float(binom.pmf(shuffles, steps, chance))
        moved = 1 - fmean(map(kept_ratio, permutations))
        share, left = share + probability * moved, left - probability
        if left < NEGLIGIBLE:
            break
        permutations = [permutation[sample_permutation(neurons, P_sf, generator)] for permutation in permutations]
    return share


def read(misplaced: Sequence[float], curve: Numbers, accuracy: Numbers, generator: np.random.Generator) -> Reading:
    """Where on the curve of accuracies [points, seeds] against misplaced neurons these accuracies [seeds] lie.

    The interval is a bootstrap over the seeds, drawn together for the curve and the accuracies: runs of one seed share
    their initial weights and the clients of each round.
    """
    x, seeds = np.asarray(misplaced), len(accuracy)
    reading = _cross(x, curve.mean(1), accuracy.mean())
    if seeds < 2:
        return Reading(reading)
    draws = generator.integers(seeds, size=(2000, seeds))
    found = np.sort([_cross(x, curve[:, drawn].mean(1), accuracy[drawn].mean()) for drawn in draws])
    ends = INTERVAL if seeds >= ENOUGH else (0.0, 1.0)
    low, high = (float(found[int(quantile * (len(found) - 1))]) for quantile in ends)
    return Reading(reading, low, high)


def _cross(x: Numbers, y: Numbers, target: float) -> float:
    """Where a curve that can only fall meets the target."""
    blocks = [(x[i], y[i], 1) for i in np.argsort(x)]
    falling: list[tuple[float, float, int]] = []
    for block in blocks:  # neighbours that rise are noise, and are pooled
        falling.append(block)
        while len(falling) > 1 and falling[-2][1] <= falling[-1][1]:
            (x1, y1, n1), (x2, y2, n2) = falling.pop(-2), falling.pop()
            n = n1 + n2
            falling.append(((n1 * x1 + n2 * x2) / n, (n1 * y1 + n2 * y2) / n, n))
    xs, ys, _ = map(np.array, zip(*falling, strict=True))
    if target > ys[0]:
        return -inf
    return inf if target < ys[-1] else float(np.interp(-target, -ys, xs))
