"""What shuffling costs a trained network: its accuracy and its shuffle error against P_sf."""

from itertools import cycle
from pathlib import Path

import pandas as pd

from fedpan_exp.report.figure import FigureResult, Findings, complete_runs, draw_line, legend, panels, panels_of
from fedpan_exp.report.frame import records
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
            trained = seed_stats(same, "summary/test_acc")
            lines = records(same["folder"].iloc[0]).sort_values("P_sf").set_index("P_sf")
            shuffled = 100 * lines[["test_acc", "deviation"]]
            draw_line(above, {P_sf: MeanStd(*cell) for P_sf, cell in shuffled.iterrows()}, colour, pan)
            draw_line(below, {P_sf: MeanStd(error) for P_sf, error in lines["error"].items()}, colour, pan)
            point = {"network": title, "PAN": pan, "trained (%)": trained}
            rows += [
                point | {"P_sf": P_sf, "shuffled (%)": MeanStd(accuracy)}
                for P_sf, accuracy in shuffled["test_acc"].items()
            ]
        legend(above)
    axes[0].set_ylabel("test accuracy (%)")
    axes[len(groups)].set_ylabel("shuffle error")
    plain = runs[runs["pans"] == "off"]
    changes = pd.Series([largest_change(folder) for folder in plain["folder"]], plain["seed"], dtype=float)
    findings: Findings = {"change off": mean_std(changes.groupby(level=0).max())}
    return FigureResult(figure, pd.DataFrame(rows), findings, ["curves: the first seed of each PAN"])


def largest_change(folder: Path) -> float:
    """Of the accuracy, by shuffles."""
    accuracies = records(folder).sort_values("P_sf")["test_acc"]
    return float((accuracies - accuracies.iloc[0]).abs().max())


RUN_PLOTS = {"shuffle_test": draw}
