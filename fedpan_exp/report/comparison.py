"""Tables over all runs: PANs off against on in pairs, the cost of a target accuracy, and the runs themselves."""

from typing import Any

import numpy as np
import pandas as pd

from fedpan_exp.report.describe import describe, distinguishing_keys
from fedpan_exp.report.frame import VALUE, column, each, key, records
from fedpan_exp.report.statistics import MeanStd, cost_to_target, gain_cells, interval, mean_std, pair_gains, seed_stats

FACETS = ("study", "algorithm", "dataset")  # of a setting, for the page's filters
PAIRED = ("setting", "PAN", "off (%)", "on (%)", "on - off (points)", "interval (level)", "win rate", "pairs")
COSTS = ("rounds", "MB sent", "seconds")


def paired_table(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per setting and PAN, then one per PAN over all settings; the columns PAIRED and FACETS."""
    with_value = runs[column(runs, VALUE).notna()]
    names, gains = distinguishing_keys(with_value, "seed", "pan"), pair_gains(runs)
    rows = []
    for _, group in runs.groupby(key(runs, "pan", "seed"), sort=False):  # counts runs that diverged before a test, too
        first, off = group.iloc[0], {"off (%)": seed_stats(group[group["pans"] == "off"])}
        for pan, same_pan in group[group["pans"] == "on"].groupby("pan", sort=False):
            differences = gains[same_pan.index].dropna()
            if len(differences):
                row = {"setting": describe(first, names) or "all runs", "PAN": pan, "on (%)": seed_stats(same_pan)}
                rows.append(row | off | _difference_cells(differences) | first[[*FACETS]].to_dict())
    table = pd.DataFrame(rows, columns=[*PAIRED, *FACETS])
    means = table["on - off (points)"].map(lambda cell: cell.mean / 100)
    for pan, pooled in means.groupby(table["PAN"], sort=False):
        if len(pooled) > 1:  # runs of one seed are correlated across settings, so they are not separate pairs
            row = {"setting": f"all {len(pooled)} settings, one mean per setting", "PAN": pan}
            rows.append(row | {"off (%)": MeanStd(n=0), "on (%)": MeanStd(n=0)} | _difference_cells(pooled))
    return pd.DataFrame(rows, columns=[*PAIRED, *FACETS])


def _difference_cells(differences: pd.Series) -> dict[str, Any]:
    bounds = interval(differences.tolist())
    text = "{:+.2f} to {:+.2f} ({:.3g}%)".format(*(100 * bound for bound in bounds)) if bounds else "too few pairs"
    wins = np.mean(np.sign(differences) + 1) / 2  # a tie counts half
    return {**gain_cells(differences), "interval (level)": text, "win rate": f"{wins:.0%}"}


def target_table(runs: pd.DataFrame, target: float) -> pd.DataFrame:
    """Rounds, megabytes and seconds until the test accuracy reached the target, over the seeds that did."""
    ended = runs[runs["complete"] | (runs["status"] == "diverged")]  # a seed that diverges may never get there
    tested = ended.loc[["global/test_acc" in records(folder) for folder in ended["folder"]]]
    names = distinguishing_keys(tested, "seed", "pan")
    rows = []
    for _, group in tested.groupby(key(tested, "seed"), sort=False):
        first, costs = group.iloc[0], [cost_to_target(folder, target) for folder in group["folder"]]
        reached = pd.DataFrame(filter(None, costs), columns=COSTS)
        row = {"setting": describe(first, names) or "all runs", "PAN": first["pan"]}
        row[f"reached {target:.0%}"] = f"{len(reached)} of {len(group)}"
        rows.append(row | {name: mean_std(reached[name], 1, digits=1) for name in COSTS})
    return pd.DataFrame(rows, columns=["setting", "PAN", f"reached {target:.0%}", *COSTS])


def run_table(runs: pd.DataFrame) -> pd.DataFrame:
    names = distinguishing_keys(runs, "seed", "pan")
    return pd.DataFrame(
        {
            "run": runs.index,
            "status": runs["status"],
            "trouble": runs["problem"],
            "setting": [describe(run, names) for run in each(runs)],
            "PAN": runs["pan"],
            "seed": runs["seed"].astype("Int64"),
            "last five (%)": (100 * column(runs, VALUE)).round(4),
            "best (%)": (100 * column(runs, "summary/best_acc")).round(4),
        }
    )
