"""Statistics over seeds: mean and deviation, PANs off and on in pairs, the best PAN, the cost of a target accuracy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import bootstrap, norm, t

from fedpan_exp.report.frame import VALUE, column, differing, key, records

LEVEL = 0.95  # of intervals, given enough pairs
ENOUGH = 6  # pairs
RESAMPLES = 4000


@dataclass(frozen=True)
class MeanStd:
    """A table cell: the mean and sample standard deviation of n values, missing without values or with only one."""

    mean: float = nan
    deviation: float = nan
    n: int = 1
    remark: str = ""  # also the reason why there is no mean
    digits: int = 2
    sign: bool = False  # show a plus

    def __str__(self) -> str:
        mean = "–" if np.isnan(self.mean) else f"{self.mean:{'+' if self.sign else ''}z,.{self.digits}f}"  # z: no -0.00
        deviation = "" if np.isnan(self.deviation) else f" ± {self.deviation:.{self.digits}f}"
        return mean + deviation + (f" ({self.remark})" if self.remark else "")

    @property
    def half_width(self) -> float:
        """Of Student's interval of the mean, for a number of values that was fixed in advance."""
        return float(t.ppf((1 + LEVEL) / 2, self.n - 1) * self.deviation / np.sqrt(self.n)) if self.n > 1 else nan


def mean_std(values: Iterable[float], scale: float = 100, **options: Any) -> MeanStd:
    """In percent by default."""
    series = scale * pd.Series(list(values), dtype=float)
    return MeanStd(float(series.mean()), float(series.std()), len(series), **options)


def measured(runs: pd.DataFrame, value: str = VALUE) -> pd.DataFrame:
    """The complete runs that have this number."""
    return runs[runs["complete"] & column(runs, value).notna()]


def seed_stats(runs: pd.DataFrame, value: str = VALUE, scale: float = 100, digits: int = 2) -> MeanStd:
    """The runs of one point. They must be seeds of one setting, or there is no mean."""
    complete = measured(runs, value)
    return _point(column(complete, value), len(runs), differing(complete, "seed"), scale, digits)


def stats_by(runs: pd.DataFrame, setting: str, value: str = VALUE) -> dict[Any, MeanStd]:
    """Value of the setting -> statistics of its runs, in rising order."""
    return {x: seed_stats(group, value) for x, group in runs.groupby(column(runs, setting))}


def _point(values: pd.Series, runs: int, mixed: Sequence[str], scale: float = 100, digits: int = 2) -> MeanStd:
    if mixed:
        return MeanStd(n=len(values), remark=f"runs differ in {', '.join(mixed[:3])}")
    left_out = runs - len(values)
    return mean_std(values, scale, digits=digits, remark=f"{left_out} left out" if left_out else "")


def pair_gains(runs: pd.DataFrame, value: str = VALUE) -> pd.Series:
    """on - off of each run with PANs on; missing without a complete run that differs only in having them off."""
    complete = measured(runs, value)
    off = complete["pans"] == "off"
    return gains_over(complete[off], complete[~off], "pan", value=value).reindex(runs.index)


def gains_over(baselines: pd.DataFrame, runs: pd.DataFrame, *without: str, value: str = VALUE) -> pd.Series:
    """The value of each run minus that of the baseline that differs from it in nothing but the settings `without`."""
    by_key = dict(zip(key(baselines, *without), column(baselines, value), strict=True))
    return column(runs, value) - key(runs, *without).map(by_key).astype(float)


def mean_of_seeds(values: pd.Series, runs: pd.DataFrame, **options: Any) -> MeanStd:
    """Over the means of seeds: runs of one seed, such as those of two PANs, are not independent."""
    seeds = runs["seed"].reindex(values.index)
    return mean_std(values.groupby(seeds).mean().dropna(), sign=True, **options)


def gain_cells(gains: pd.Series) -> dict[str, Any]:
    """The cells of a table row for the differences of pairs."""
    present = gains.dropna()
    return {"on - off (points)": mean_std(present, sign=True), "pairs": len(present)}


def interval(differences: Sequence[float]) -> tuple[float, float, float] | None:
    """Low and high end of an interval of the mean, and its coverage; None for fewer than three.

    Percentile bootstrap at 95%, widened for few values as Student's t is (Hesterberg, 2015): plain percentiles are too
    narrow by sqrt(n / (n - 1)) and use the normal quantile. Fewer than six: their range. Means of resamples are between
    the smallest and the largest of n values, and so is the true median with probability 1 - 2^(1-n), which is below
    95% for fewer than six.
    """
    n = len(differences)
    if n < ENOUGH:
        return (min(differences), max(differences), 1 - 2.0 ** (1 - n)) if n > 2 else None
    tail = norm.cdf(-np.sqrt(n / (n - 1)) * t.ppf((1 + LEVEL) / 2, n - 1))
    options = {"n_resamples": RESAMPLES, "method": "percentile", "rng": np.random.default_rng(0)}
    result = bootstrap((np.array(differences),), np.mean, confidence_level=1 - 2 * tail, **options)
    low, high = result.confidence_interval
    return float(low), float(high), LEVEL


class BestPan(NamedTuple):
    """The PAN of a setting with the highest mean of the last five, over the seeds that off and every PAN share."""

    pan: str  # off if no PAN was run
    off: MeanStd
    on: MeanStd
    gains: pd.Series  # on - off, per pair
    runs: pd.DataFrame  # of these seeds
    by_choosing: float  # what choosing the best of these PANs is expected to gain if all are equally good

    def cells(self) -> dict[str, Any]:
        """The cells of a table row."""
        names = {"PANs off (%)": self.off, "best PAN": self.pan, "PANs on (%)": self.on}
        return names | gain_cells(self.gains) | {"of it by choosing": mean_std([self.by_choosing], sign=True)}

    @property
    def fair_gains(self) -> pd.Series:
        """The gains by seed, less what choosing the best PAN is expected to bring."""
        return pd.Series(self.gains.to_numpy() - self.by_choosing, self.runs.loc[self.gains.index, "seed"])


def best_pan(runs: pd.DataFrame) -> BestPan:
    """`runs` should differ only in PAN and seed; otherwise there are no means."""
    complete = measured(runs)
    mixed = differing(complete, "seed", "pan")
    accuracies = complete.pivot_table(VALUE, "seed", "pan").dropna()
    shared = complete[complete["seed"].isin(accuracies.index)]
    pans = accuracies.mean().drop("off", errors="ignore").sort_values(ascending=False, kind="stable")
    best = str(pans.index[0]) if len(pans) else "off"

    def stats(group: pd.DataFrame) -> MeanStd:
        values = column(shared, VALUE)[shared.index.isin(group.index)]
        return _point(values, len(group), mixed)

    on, off = runs[runs["pan"] == best if len(pans) else runs["pans"] == "on"], runs[runs["pan"] == "off"]
    gains = pair_gains(shared[shared["pan"].isin(["off", best])]).dropna()
    return BestPan(best, stats(off), stats(on), gains, shared, gain_by_choosing(accuracies[pans.index]))


def gain_by_choosing(accuracies: pd.DataFrame) -> float:
    """By how much the best column mean of equally good columns is expected to exceed the mean of one.

    Rows are seeds. Columns of one seed vary around their mean; the largest of k normal means of n rows is ahead by
    E[max of k] deviations, divided by sqrt(n). With one seed it is rough: the deviation is over few values.
    """
    seeds, columns = accuracies.shape
    if columns < 2 or not seeds:
        return 0.0
    largest = norm.expect(lambda x: columns * x * norm.cdf(x) ** (columns - 1))
    return float(largest * np.sqrt(accuracies.var(axis=1).mean() / seeds))


def cost_to_target(folder: Path, target: float) -> dict[str, float] | None:
    """Cost until the test accuracy first reached the target; None for a run that never did."""
    rows = records(folder)
    reached = np.flatnonzero(column(rows, "global/test_acc").astype(float) >= target)
    if not len(reached):
        return None
    until = rows.iloc[: reached[0] + 1]
    sums = until.reindex(columns=["comm/up_bytes", "comm/down_bytes", "time/round_s"]).sum()
    megabytes = (sums["comm/up_bytes"] + sums["comm/down_bytes"]) / 1e6
    return {"rounds": float(until["round"].iloc[-1]), "MB sent": megabytes, "seconds": sums["time/round_s"]}
