"""Statistics over seeds: mean and deviation, PANs off and on in pairs, the best PAN, the cost of a target accuracy."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import bootstrap, norm, t

from fedpan_exp.report.frame import VALUE, column, differing, key, records

LEVEL = 0.95  # of intervals, given enough pairs
ENOUGH = 6  # pairs
RESAMPLES = 4000


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
        return float(np.mean(np.sign(self.differences) + 1) / 2)

    @property
    def level(self) -> float | None:
        """Coverage of the interval. Means of resamples are between the smallest and the largest of n values, and so is
        the true median with probability 1 - 2^(1-n), which is below 95% for fewer than six."""
        return min(LEVEL, 1 - 2.0 ** (1 - self.n)) if self.n > 2 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Percentile bootstrap of the mean at 95%, widened for few values as Student's t is (Hesterberg, 2015): plain
        percentiles are too narrow by sqrt(n / (n - 1)) and use the normal quantile. Fewer than six: their range."""
        if self.n < ENOUGH:
            return (min(self.differences), max(self.differences)) if self.n > 2 else None
        tail = norm.cdf(-np.sqrt(self.n / (self.n - 1)) * t.ppf((1 + LEVEL) / 2, self.n - 1))
        sample, rng = (np.array(self.differences),), np.random.default_rng(0)
        options = {"confidence_level": 1 - 2 * tail, "n_resamples": RESAMPLES, "method": "percentile", "rng": rng}
        low, high = bootstrap(sample, np.mean, **options).confidence_interval
        return float(low), float(high)


def measured(runs: pd.DataFrame, value: str = VALUE) -> pd.DataFrame:
    """The complete runs that have this number."""
    return runs[runs["complete"].astype(bool) & column(runs, value).notna()]


def seed_stats(runs: pd.DataFrame, value: str = VALUE) -> SeedStats:
    complete = measured(runs, value)
    return SeedStats(tuple(column(complete, value)), len(runs) - len(complete), tuple(differing(complete, "seed")))


def pair_gains(runs: pd.DataFrame, value: str = VALUE) -> pd.Series:
    """on - off of each run with PANs on; missing without a complete run that differs only in having them off."""
    complete = measured(runs, value)
    values, pair, off = column(complete, value), key(complete, "pan"), complete["pans"] == "off"
    baselines = dict(zip(pair[off], values[off], strict=True))
    return (values[~off] - pair[~off].map(baselines).astype(float)).reindex(runs.index)


def paired(runs: pd.DataFrame, value: str = VALUE) -> Paired:
    return Paired(tuple(pair_gains(runs, value).dropna()))


@dataclass(frozen=True, eq=False)
class BestPan:
    """The PAN of a setting with the highest mean of the last five, over the seeds that off and every PAN share."""

    pan: str  # off if no PAN was run
    on: SeedStats
    off: SeedStats
    gain: Paired | None
    runs: pd.DataFrame  # of the best PAN
    baselines: pd.DataFrame
    tried: int  # number of PANs


def best_pan(runs: pd.DataFrame, value: str = VALUE) -> BestPan:
    """`runs` should differ only in PAN and seed; otherwise the statistics list the settings and have no mean."""
    complete = measured(runs, value)
    mixed = tuple(differing(complete, "seed", "pan"))
    pans_per_seed = complete.groupby("seed")["pan"].nunique()
    shared = complete[complete["seed"].isin(pans_per_seed.index[pans_per_seed == complete["pan"].nunique()])]

    def stats(pan: str) -> SeedStats:
        group = shared[shared["pan"] == pan]
        left_out = int((runs["pan"] == pan).sum()) - len(group)  # incomplete, or of a seed that others lack
        return SeedStats(tuple(column(group, value)), left_out, mixed or tuple(differing(group, "seed")))

    def rank(pan: str) -> float:
        mean = stats(pan).mean
        return -np.inf if mean is None else mean

    tried = [pan for pan in complete["pan"].unique() if pan != "off"]
    best = max(tried, key=rank, default="off")
    best_runs, baselines = shared[shared["pan"] == best], shared[shared["pan"] == "off"]
    gain = paired(pd.concat([best_runs, baselines]), value) if tried else None
    on = stats(best) if tried else SeedStats((), len(runs) - len(complete), mixed)
    return BestPan(best, on, stats("off"), gain if gain and gain.n else None, best_runs, baselines, len(tried))


@dataclass(frozen=True)
class CostToTarget:
    """Cost until the test accuracy first reached the target."""

    rounds: float
    bytes: float
    seconds: float


def cost_to_target(run: pd.Series, target: float) -> CostToTarget | None:
    """None for a run that never reached the target."""
    rows = records(run["folder"])
    reached = np.flatnonzero(column(rows, "global/test_acc").astype(float) >= target)
    if not len(reached):
        return None
    until = rows.iloc[: reached[0] + 1]
    traffic = column(until, "comm/up_bytes").sum() + column(until, "comm/down_bytes").sum()
    return CostToTarget(float(until["round"].iloc[-1]), float(traffic), float(column(until, "time/round_s").sum()))
