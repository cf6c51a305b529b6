"""Interpolation between two networks: accuracy against mu, by averaging and by optimal transport."""

import pandas as pd

from fedpan_exp.report.figure import FigureResult, complete_runs, draw_line, legend, panels, panels_of
from fedpan_exp.report.frame import curves
from fedpan_exp.report.statistics import mean_of_seeds, mean_std, pair_gains
from fedpan_exp.report.style import BLUE, GREEN, GREY, ORANGE

MIDDLE = "summary/ot_middle"  # accuracy at mu=0.5
LINES = (  # label, PANs, column, colour
    ("Avg", "off", "avg_acc", GREY),
    ("OT+Avg", "off", "ot_acc", BLUE),
    ("PANs+Avg", "on", "avg_acc", GREEN),
    ("PANs+OT+Avg", "on", "ot_acc", ORANGE),
)


def draw(runs: pd.DataFrame) -> FigureResult:
    """Means over the seeds; one panel per dataset and network. Networks fused by PFNM have no mu."""
    runs = complete_runs(runs, "fusion", "mu")
    groups = panels_of(runs, ("dataset", "model"))
    figure, axes = panels(groups, r"$\mu$: from network A (0) to network B (1)", "test accuracy (%)", (4.2, 3.2))
    rows = []
    for panel, (title, group) in zip(axes, groups.items(), strict=True):
        for label, pans, column, colour in LINES:
            accuracies = curves(group["folder"][group["pans"] == pans], column, "mu")
            cells = {mu: mean_std(values) for mu, values in accuracies.iterrows()}
            draw_line(panel, cells, colour, label)
            rows += [{"networks": title, "fusion": label, "mu": mu, "accuracy (%)": cell} for mu, cell in cells.items()]
        legend(panel)
    return FigureResult(figure, pd.DataFrame(rows), {"middle": mean_of_seeds(pair_gains(runs, MIDDLE), runs)})


RUN_PLOTS = {"fusion": draw}
