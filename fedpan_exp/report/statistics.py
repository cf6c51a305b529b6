"""What seeds and pairs say: means, paired differences with their intervals, the best PAN, the way to a target."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, t

from fedpan_exp.report.runs import VALUE, Run, differing

LEVEL = 0.95  # of intervals, where there are pairs enough
ENOUGH = 6  # pairs for that
RESAMPLES = 4000


@dataclass(frozen=True)
class Cell:
    """The runs that fall on one point: seeds of one setting, else there is no mean."""

    values: tuple[float, ...] = ()
    left_out: int = 0  # runs that are not whole
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


def gather(
    runs: Iterable[Run],
    place: Callable[[Run], Hashable],
    value: Callable[[Run], float | None] = Run.number,
) -> dict[Hashable, Cell]:
    """Runs by where they fall; each place keeps count of what was left out of it."""
    places: dict[Hashable, list[Run]] = {}
    for run in runs:
        places.setdefault(place(run), []).append(run)
    return {where: cell_of(there, value) for where, there in places.items()}


def cell_of(runs: Sequence[Run], value: Callable[[Run], float | None] = Run.number) -> Cell:
    whole = [run for run in runs if run.whole and value(run) is not None]
    values = tuple(found for run in whole if (found := value(run)) is not None)
    return Cell(values, len(runs) - len(whole), tuple(differing(whole, "seed")))


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


@dataclass(frozen=True)
class Choice:
    """The best PAN of a setting: by the mean of the last five over the seeds that off and every PAN have in common."""

    pan: str  # off where no PAN was run
    on: Cell
    off: Cell
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
    left_out = len(runs) - len(whole)
    mixed = tuple(differing(whole, "seed", "pan"))

    def cell(pan: str) -> Cell:
        values = (run.number(value) for run in by_pan.get(pan, []) if run.seed in shared)
        return Cell(tuple(number for number in values if number is not None), left_out, mixed)

    tried = [pan for pan in by_pan if pan != "off"]
    best = max(tried, key=lambda pan: _rank(cell(pan)), default="off")
    chosen = tuple(run for run in by_pan.get(best, []) if run.seed in shared)
    baselines = tuple(run for run in by_pan.get("off", []) if run.seed in shared)
    gain = paired([*chosen, *baselines], value) if best != "off" else None
    on = cell(best) if best != "off" else Cell((), left_out, mixed)
    return Choice(best, on, cell("off"), gain if gain and gain.n else None, chosen, baselines, len(tried))


@dataclass(frozen=True)
class Way:
    """What it took until the test accuracy reached the target."""

    rounds: float
    bytes: float
    seconds: float


def way_to(run: Run, target: float) -> Way | None:
    """None for a run that never got there."""
    accuracy = run.columns.get("global/test_acc")
    if accuracy is None or accuracy.dtype == object:
        return None
    there = np.flatnonzero(accuracy >= target)
    if not len(there):
        return None
    until = slice(0, there[0] + 1)
    traffic = sum(_sum(run, name, until) for name in ("comm/up_bytes", "comm/down_bytes"))
    return Way(float(run.columns["round"][there[0]]), traffic, _sum(run, "time/round_s", until))


def _sum(run: Run, name: str, rows: slice) -> float:
    return float(np.nansum(run.columns[name][rows])) if name in run.columns else 0.0


def _gain(off: Run, on: Run, value: str) -> float:
    low, high = off.number(value), on.number(value)
    return float("nan") if low is None or high is None else high - low  # pairs() takes runs that have it


def _rank(cell: Cell) -> float:
    return -np.inf if cell.mean is None else cell.mean
