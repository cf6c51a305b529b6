"""Statistics over seeds: mean and deviation, the best PAN, the cost of a target accuracy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedpan_exp.report.pairing import Paired, paired
from fedpan_exp.report.runs import VALUE, Run, differing


@dataclass(frozen=True)
class SeedStats:
    """The runs of one point. They must be seeds of one setting, or there is no mean."""

    values: tuple[float, ...] = ()
    left_out: int = 0  # runs that are incomplete or have no partner
    mixed: tuple[str, ...] = ()  # settings other than the seed in which the runs differ

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values and not self.mixed else None

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation; None for one seed."""
        return float(np.std(self.values, ddof=1)) if self.n > 1 and not self.mixed else None


def seed_stats(runs: Sequence[Run], value: Callable[[Run], float | None] = Run.number) -> SeedStats:
    complete = [run for run in runs if run.complete and value(run) is not None]
    values = tuple(number for run in complete if (number := value(run)) is not None)
    return SeedStats(values, len(runs) - len(complete), tuple(differing(complete, "seed")))


@dataclass(frozen=True)
class BestPan:
    """The PAN of a setting with the highest mean of the last five, over the seeds that off and every PAN share."""

    pan: str  # off if no PAN was run
    on: SeedStats
    off: SeedStats
    gain: Paired | None
    runs: tuple[Run, ...]  # of the best PAN
    baselines: tuple[Run, ...]
    tried: int  # number of PANs


def best_pan(runs: Sequence[Run], value: str = VALUE) -> BestPan:
    """`runs` should differ only in PAN and seed; otherwise the statistics list the settings and have no mean."""
    complete = [run for run in runs if run.complete and run.number(value) is not None]
    by_pan: dict[str, list[Run]] = {}
    for run in complete:
        by_pan.setdefault(run.pan, []).append(run)
    shared = set.intersection(*({run.seed for run in group} for group in by_pan.values())) if by_pan else set()
    mixed = tuple(differing(complete, "seed", "pan"))

    def stats(pan: str) -> SeedStats:
        group = [run for run in by_pan.get(pan, []) if run.seed in shared]
        values = tuple(number for run in group if (number := run.number(value)) is not None)
        left_out = sum(run.pan == pan for run in runs) - len(values)  # incomplete, or of a seed that others lack
        return SeedStats(values, left_out, mixed or tuple(differing(group, "seed")))

    tried = [pan for pan in by_pan if pan != "off"]
    best = max(tried, key=lambda pan: _rank(stats(pan)), default="off")
    best_runs = tuple(run for run in by_pan.get(best, []) if run.seed in shared)
    baselines = tuple(run for run in by_pan.get("off", []) if run.seed in shared)
    gain = paired([*best_runs, *baselines], value) if best != "off" else None
    on = stats(best) if best != "off" else SeedStats((), len(runs) - len(complete), mixed)
    return BestPan(best, on, stats("off"), gain if gain and gain.n else None, best_runs, baselines, len(tried))


@dataclass(frozen=True)
class CostToTarget:
    """Cost until the test accuracy first reached the target."""

    rounds: float
    bytes: float
    seconds: float


def cost_to_target(run: Run, target: float) -> CostToTarget | None:
    """None for a run that never reached the target."""
    accuracy = run.floats("global/test_acc")
    if accuracy is None:
        return None
    reached = np.flatnonzero(accuracy >= target)
    if not len(reached):
        return None
    until = slice(0, reached[0] + 1)
    traffic = sum(_sum(run, name, until) for name in ("comm/up_bytes", "comm/down_bytes"))
    return CostToTarget(float(run.columns["round"][reached[0]]), traffic, _sum(run, "time/round_s", until))


def _sum(run: Run, name: str, rows: slice) -> float:
    column = run.floats(name)
    return 0.0 if column is None else float(np.nansum(column[rows]))


def _rank(stats: SeedStats) -> float:
    return -np.inf if stats.mean is None else stats.mean
