"""Tables over all runs: PANs off against on in pairs, the cost of a target accuracy, and the runs themselves."""

import pandas as pd

from fedpan_exp.report.describe import describe, distinguishing_keys
from fedpan_exp.report.frame import VALUE, column, each, key, records
from fedpan_exp.report.statistics import Paired, SeedStats, cost_to_target, paired, seed_stats
from fedpan_exp.report.tables import Value, gain, mean_std, table

FACETS = ("study", "algorithm", "dataset")  # of a setting, for the page's filters
PAIRED = ("setting", "PAN", "off (%)", "on (%)", "on - off (points)", "interval (level)", "win rate", "pairs")


def paired_table(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per setting and PAN, then one per PAN over all settings; the columns PAIRED and FACETS."""
    with_value = runs[column(runs, VALUE).notna()]
    names = distinguishing_keys(with_value, "seed", "pan")
    rows: list[list[Value]] = []
    pooled: dict[str, list[float]] = {}
    for _, group in with_value.groupby(key(with_value, "pan", "seed"), sort=False):
        off, on = group[group["pans"] == "off"], group[group["pans"] == "on"]
        for pan, same_pan in on.groupby("pan", sort=False):
            difference = paired(pd.concat([off, same_pan]))
            if difference.n:
                first = group.iloc[0]
                setting = describe(first, names) or "all runs"
                rows.append(
                    [*_paired_row(setting, pan, seed_stats(off), seed_stats(same_pan), difference), *first[[*FACETS]]]
                )
                pooled.setdefault(pan, []).append(difference.mean)
    for pan, means in pooled.items():
        if len(means) > 1:  # runs of one seed are correlated across settings, so they are not separate pairs
            setting = f"all {len(means)} settings, one mean per setting"
            rows.append([*_paired_row(setting, pan, SeedStats(), SeedStats(), Paired(tuple(means))), None, None, None])
    return table([*PAIRED, *FACETS], rows)


def _paired_row(setting: str, pan: str, off: SeedStats, on: SeedStats, difference: Paired) -> list[Value]:
    interval = "too few pairs"
    if difference.interval and difference.level:
        low, high = difference.interval
        interval = f"{100 * low:+.2f} to {100 * high:+.2f} ({100 * difference.level:.3g}%)"
    wins = f"{difference.wins:.0%}"
    return [setting, pan, mean_std(off), mean_std(on), gain(difference), interval, wins, difference.n]


def target_table(runs: pd.DataFrame, target: float) -> pd.DataFrame:
    """Rounds, megabytes and seconds until the test accuracy reached the target, over the seeds that did."""
    tested = runs[[run.complete and "global/test_acc" in records(run.folder) for run in runs.itertuples()]]
    names = distinguishing_keys(tested, "seed", "pan")
    rows: list[list[Value]] = []
    for _, group in tested.groupby(key(tested, "seed"), sort=False):
        costs = [cost for run in each(group) if (cost := cost_to_target(run, target))]
        cells = zip(*((cost.rounds, cost.bytes / 1e6, cost.seconds) for cost in costs), strict=True)
        means = [mean_std(SeedStats(values), 1, 1) for values in (cells if costs else [()] * 3)]
        first = group.iloc[0]
        rows.append([describe(first, names) or "all runs", first["pan"], f"{len(costs)} of {len(group)}", *means])
    return table(["setting", "PAN", f"reached {target:.0%}", "rounds", "MB sent", "seconds"], rows)


def run_table(runs: pd.DataFrame) -> pd.DataFrame:
    names = distinguishing_keys(runs, "seed", "pan")
    frame = runs[["status", "problem"]].reset_index().rename(columns={"problem": "trouble"})
    frame["setting"] = [describe(run, names) for run in each(runs)]
    frame["PAN"], frame["seed"] = runs["pan"].to_list(), runs["seed"].astype("Int64").to_list()
    for title, name in (("last five (%)", VALUE), ("best (%)", "summary/best_acc")):
        frame[title] = (100 * column(runs, name)).round(4).to_list()
    return frame.astype(object).where(frame.notna(), None)
