"""What shuffling costs a trained network: its accuracy and its shuffle error against P_sf."""

from itertools import cycle
from pathlib import Path

import pandas as pd

from fedpan_exp.report.figure import FigureResult, Findings, complete_runs, draw_line, legend, panels, panels_of
from fedpan_exp.report.frame import curves, records
from fedpan_exp.report.statistics import MeanStd, mean_std, seed_stats
from fedpan_exp.report.style import SERIES


def draw(runs: pd.DataFrame) -> FigureResult:
    """One column per dataset and network: above the accuracy, below the shuffle error, one line per PAN."""
    runs = complete_runs(runs, "shuffle_test", "P_sf")
    groups = panels_of(runs, ("dataset", "model"))
    figure, axes = panels([*groups, *groups], "$P_{sf}$", size=(3.6, 2.8), columns=max(2, len(groups)))
    rows = []
    for above, below, (title, group) in zip(axes, axes[len(groups) :], groups.items(), strict=False):
        by_pan = group.sort_values(["pans", "pan"], kind="stable").groupby("pan", sort=False)
        for colour, (pan, same) in zip(cycle(SERIES), by_pan, strict=False):
            trained, shuffled = seed_stats(same, "summary/test_acc"), shuffled_accuracies(same["folder"])
            errors = {P_sf: mean_std(values, 1) for P_sf, values in curves(same["folder"], "error", "P_sf").iterrows()}
            draw_line(above, shuffled, colour, pan)
            draw_line(below, errors, colour, pan)
            point = {"network": title, "PAN": pan, "trained (%)": trained}
            rows += [point | {"P_sf": P_sf, "shuffled (%)": cell} for P_sf, cell in shuffled.items()]
        legend(above)
    axes[0].set_ylabel("test accuracy (%)")
    axes[len(groups)].set_ylabel("shuffle error")
    plain = runs[runs["pans"] == "off"]
    changes = pd.Series([largest_change(folder) for folder in plain["folder"]], plain["seed"], dtype=float)
    findings: Findings = {"change off": mean_std(changes.groupby(level=0).max())}
    return FigureResult(figure, pd.DataFrame(rows), findings, ["±: over the seeds; with one seed, over its shuffles"])


def shuffled_accuracies(folders: pd.Series) -> dict[float, MeanStd]:
    """By P_sf: the mean over runs that differ in the seed alone."""
    if len(folders) > 1:
        return {P_sf: mean_std(values) for P_sf, values in curves(folders, "test_acc", "P_sf").iterrows()}
    shuffles = 100 * records(folders.iloc[0]).set_index("P_sf")[["test_acc", "deviation"]].sort_index()
    return {P_sf: MeanStd(*cell) for P_sf, cell in shuffles.iterrows()}


def largest_change(folder: Path) -> float:
    """Of the accuracy, by shuffles."""
    accuracies = records(folder).sort_values("P_sf")["test_acc"]
    return float((accuracies - accuracies.iloc[0]).abs().max())


RUN_PLOTS = {"shuffle_test": draw}
