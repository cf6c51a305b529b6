"""seed=auto: seeds are added to the comparisons of a sweep until each is settled, or the budget is spent.

A comparison is a setting and its baseline, run with the same seeds. Its standing is read from the run folders, so that
an interrupted sweep resumes with what it knows.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile

import numpy as np

from fedpan_exp.config.settle import Settle
from fedpan_exp.report.confidence_sequence import confidence_sequence, values_needed
from fedpan_exp.report.frame import VALUE
from fedpan_exp.sweeping.grids import swept_settings
from fedpan_exp.sweeping.jobs import Job, distinct
from fedpan_exp.system.console import console, plain_table, warn
from fedpan_exp.system.errors import ConfigError


@dataclass(frozen=True)
class Comparison:
    """Two jobs of the sweep, as indices in its list of jobs, which has the same order for every seed."""

    label: str
    variant: int
    baseline: int


@dataclass(frozen=True)
class Standing:
    """What the pairs of a comparison have shown so far."""

    differences: tuple[float, ...]  # variant - baseline, in points of accuracy
    settle: Settle

    @property
    def mean(self) -> float:
        return float(np.mean(self.differences)) if self.differences else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        return confidence_sequence(self.differences, self.settle.level)

    @property
    def margin(self) -> float:
        """Half the width of the interval."""
        low, high = self.interval
        return (high - low) / 2

    @property
    def gap(self) -> float:
        """Points by which the interval is too wide to exclude 0 or to be within the margin; settled if not above 0."""
        if math.isinf(self.margin):
            return math.inf
        return min(self.margin - self.settle.margin, self.margin - abs(self.mean))

    @property
    def verdict(self) -> str:
        low, high = self.interval
        if low > 0 or high < 0:
            return "above 0" if low > 0 else "below 0"
        return f"known to {self.margin:.2f}" if self.gap <= 0 else "undecided"

    @property
    def pairs_needed(self) -> int | None:
        """Pairs after which the margin is reached if the differences keep varying as they do; None: too many."""
        if len(self.differences) < 2:
            return None
        deviation = float(np.std(self.differences, ddof=1))
        return values_needed(deviation, self.settle.margin, self.settle.level)


class Settling:
    """Decides which pair of runs is next. `compose` returns the jobs of the sweep for a seed."""

    def __init__(self, compose: Callable[[int], Sequence[Job]], settle: Settle):
        self._compose, self._settle = cache(compose), settle
        self.comparisons = find_comparisons(self._compose(0))
        self._tried: set[tuple[Comparison, int]] = set()  # pairs that this command has run, or tried to
        self._deadline = time.monotonic() + 3600 * settle.hours

    def next_pairs(self, limit: int | None) -> list[Job]:
        """The jobs of the next pairs, at most `limit`, the most undecided comparisons first; empty: all is done."""
        if time.monotonic() >= self._deadline:
            return []
        standings = {comparison: self.standing(comparison) for comparison in self.comparisons}
        seeds = {
            comparison: seed
            for comparison, standing in standings.items()
            if standing.gap > 0 and (seed := self._next_seed(comparison)) is not None
        }
        most_undecided = sorted(seeds, key=lambda each: (-standings[each].gap, seeds[each]))[:limit]
        self._tried |= {(comparison, seeds[comparison]) for comparison in most_undecided}
        return distinct(job for comparison in most_undecided for job in self._pair(comparison, seeds[comparison]))

    def standing(self, comparison: Comparison) -> Standing:
        differences = (_difference(*self._pair(comparison, seed)) for seed in self._begun_seeds())
        return Standing(tuple(value for value in differences if value is not None), self._settle)

    def _begun_seeds(self) -> Iterator[int]:
        """The seeds that have runs. They are run in order, and composing the jobs of all others would take long."""
        has_runs = (any(job.record.status for job in self._compose(seed)) for seed in range(self._settle.seeds))
        return (seed for seed, _ in enumerate(takewhile(bool, has_runs)))

    def _next_seed(self, comparison: Comparison) -> int | None:
        for seed in range(self._settle.seeds):
            if (comparison, seed) not in self._tried and not all(
                job.is_finished for job in self._pair(comparison, seed)
            ):
                return seed
        return None

    def _pair(self, comparison: Comparison, seed: int) -> tuple[Job, Job]:
        jobs = self._compose(seed)
        return jobs[comparison.variant], jobs[comparison.baseline]


def find_comparisons(jobs: Sequence[Job]) -> list[Comparison]:
    """Compare settings with PANs with the same settings without; if no two jobs are such a pair, with the first job."""
    runs = distinct(jobs)
    if len(runs) < 2:
        raise ConfigError("seed=auto must have at least two settings to compare, got 1")
    if any(job.record.identity.total_rounds is None for job in runs):
        raise ConfigError("seed=auto must have a study that measures accuracy over rounds or epochs")
    plain = {_without_pan(job): job for job in reversed(runs) if job.record.identity.pans_off}
    pairs = [(job, plain.get(_without_pan(job))) for job in runs if not job.record.identity.pans_off]
    has_pairs = any(baseline for _, baseline in pairs)
    names, places = swept_settings([job.overrides for job in runs]), {job: place for place, job in enumerate(jobs)}
    comparisons = []
    for job, baseline in pairs if has_pairs else [(job, runs[0]) for job in runs[1:]]:
        if baseline:
            comparisons.append(Comparison(job.label(names), places[job], places[baseline]))
        else:
            warn(f"seed=auto leaves out {job.label(names)}: the sweep has no job with the same settings and PANs off")
    return comparisons


def print_standings(settling: Settling) -> None:
    """Print one line per comparison: its pairs, difference, interval, verdict, and what more it would take."""
    rows = []
    for comparison in settling.comparisons:
        standing = settling.standing(comparison)
        low, high = standing.interval
        interval = "" if math.isinf(low) else f"{low:+.2f} to {high:+.2f}"
        mean = f"{standing.mean:+.2f}" if standing.differences else ""
        needed = standing.pairs_needed if standing.verdict == "undecided" else None
        more = f" (about {needed} pairs would settle it)" if needed else ""
        rows.append((comparison.label, str(len(standing.differences)), mean, interval, standing.verdict + more))
    numbers = ("pairs", "difference", "interval")
    console.print()
    console.print(plain_table(["compared with its baseline", *numbers, ""], rows, numbers))


def _difference(variant: Job, baseline: Job) -> float | None:
    """In points; None unless both runs are done: a run that has diverged has no accuracy."""
    ours, theirs = (job.run.summary.get(VALUE) if job.record.status == "done" else None for job in (variant, baseline))
    return None if ours is None or theirs is None else 100 * (ours - theirs)


def _without_pan(job: Job) -> str:
    return json.dumps({key: value for key, value in job.record.settings.items() if key != "pan"}, sort_keys=True)
