"""What shuffling costs a trained network: its accuracy and its shuffle error against P_sf."""

from itertools import cycle

import pandas as pd

from fedpan_exp.report.figure import FigureResult, Findings, complete_runs, draw_line, legend, panels, panels_of
from fedpan_exp.report.frame import records
from fedpan_exp.report.statistics import MeanStd, seed_stats
from fedpan_exp.report.style import SERIES


def draw(runs: pd.DataFrame) -> FigureResult:
    """One column per dataset and network: above the accuracy, below the shuffle error, one line per PAN."""
    groups = panels_of(complete_runs(runs, "shuffle_test", "P_sf"), ("dataset", "model"))
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
    table = pd.DataFrame(rows)
    accuracies = table[table["PAN"] == "off"].groupby("network")["shuffled (%)"]
    changes = [abs(cell.mean - cells.iloc[0].mean) for _, cells in accuracies for cell in cells]
    findings: Findings = {"change off": MeanStd(max(changes), n=len(changes))} if changes else {}
    return FigureResult(figure, table, findings, ["curves: the first seed of each PAN"])


RUN_PLOTS = {"shuffle_test": draw}
