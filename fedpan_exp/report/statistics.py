"""What seeds say: means and deviations, the best PAN, the way to a target."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedpan_exp.report.pairing import Paired, paired
from fedpan_exp.report.runs import VALUE, Run, differing


@dataclass(frozen=True)
class SeedStats:
    """The runs that fall on one point: seeds of one setting, else there is no mean."""

    values: tuple[float, ...] = ()
    left_out: int = 0  # runs that are not whole, or have no partners
    mixed: tuple[str, ...] = ()  # settings other than the seed in which the runs differ

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values and not self.mixed else None

    @property
    def deviation(self) -> float | None:
        """Of the sample; one seed has none."""
        return float(np.std(self.values, ddof=1)) if self.n > 1 and not self.mixed else None


def seed_stats(runs: Sequence[Run], value: Callable[[Run], float | None] = Run.number) -> SeedStats:
    whole = [run for run in runs if run.whole and value(run) is not None]
    values = tuple(found for run in whole if (found := value(run)) is not None)
    return SeedStats(values, len(runs) - len(whole), tuple(differing(whole, "seed")))


@dataclass(frozen=True)
class Choice:
    """The best PAN of a setting: by the mean of the last five over the seeds that off and every PAN have in common."""

    pan: str  # off where no PAN was run
    on: SeedStats
    off: SeedStats
    gain: Paired | None
    runs: tuple[Run, ...]  # of the chosen PAN
    baselines: tuple[Run, ...]
    tried: int  # PANs


def best_pan(runs: Sequence[Run], value: str = VALUE) -> Choice:
    """Of runs equal in everything but PAN and seed; where they differ in more, the cells say so and have no mean."""
    whole = [run for run in runs if run.whole and run.number(value) is not None]
    by_pan: dict[str, list[Run]] = {}
    for run in whole:
        by_pan.setdefault(run.pan, []).append(run)
    shared = set.intersection(*({run.seed for run in there} for there in by_pan.values())) if by_pan else set()
    mixed = tuple(differing(whole, "seed", "pan"))

    def cell(pan: str) -> SeedStats:
        there = [run for run in by_pan.get(pan, []) if run.seed in shared]
        values = tuple(number for run in there if (number := run.number(value)) is not None)
        left_out = sum(run.pan == pan for run in runs) - len(values)  # not whole, or of a seed that others lack
        return SeedStats(values, left_out, mixed or tuple(differing(there, "seed")))

    tried = [pan for pan in by_pan if pan != "off"]
    best = max(tried, key=lambda pan: _rank(cell(pan)), default="off")
    chosen = tuple(run for run in by_pan.get(best, []) if run.seed in shared)
    baselines = tuple(run for run in by_pan.get("off", []) if run.seed in shared)
    gain = paired([*chosen, *baselines], value) if best != "off" else None
    on = cell(best) if best != "off" else SeedStats((), len(runs) - len(whole), mixed)
    return Choice(best, on, cell("off"), gain if gain and gain.n else None, chosen, baselines, len(tried))


@dataclass(frozen=True)
class CostToTarget:
    """What it took until the test accuracy reached the target."""

    rounds: float
    bytes: float
    seconds: float


def cost_to_target(run: Run, target: float) -> CostToTarget | None:
    """None for a run that never got there."""
    accuracy = run.floats("global/test_acc")
    if accuracy is None:
        return None
    there = np.flatnonzero(accuracy >= target)
    if not len(there):
        return None
    until = slice(0, there[0] + 1)
    traffic = sum(_sum(run, name, until) for name in ("comm/up_bytes", "comm/down_bytes"))
    return CostToTarget(float(run.columns["round"][there[0]]), traffic, _sum(run, "time/round_s", until))


def _sum(run: Run, name: str, rows: slice) -> float:
    column = run.floats(name)
    return 0.0 if column is None else float(np.nansum(column[rows]))


def _rank(cell: SeedStats) -> float:
    return -np.inf if cell.mean is None else cell.mean
