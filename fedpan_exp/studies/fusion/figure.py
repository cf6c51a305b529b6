"""Interpolation between two networks: accuracy against mu, by averaging and by optimal transport."""

import pandas as pd

from fedpan_exp.report.figure import FigureResult, Findings, complete_runs, draw_line, legend, panels, panels_of
from fedpan_exp.report.frame import curves
from fedpan_exp.report.statistics import MeanStd, mean_std
from fedpan_exp.report.style import BLUE, GREEN, GREY, ORANGE

LINES = (  # label, PANs, column, colour
    ("Avg", "off", "avg_acc", GREY),
    ("OT+Avg", "off", "ot_acc", BLUE),
    ("PANs+Avg", "on", "avg_acc", GREEN),
    ("PANs+OT+Avg", "on", "ot_acc", ORANGE),
)


def draw(runs: pd.DataFrame) -> FigureResult:
    """Means over the seeds; one panel per dataset and network. Networks fused by PFNM have no mu."""
    groups = panels_of(complete_runs(runs, "fusion", "mu"), ("dataset", "model"))
    figure, axes = panels(groups, r"$\mu$: from network A (0) to network B (1)", "test accuracy (%)", (4.2, 3.2))
    rows, gains = [], []
    for panel, (title, group) in zip(axes, groups.items(), strict=True):
        middle: dict[str, float] = {}
        for label, pans, column, colour in LINES:
            accuracies = curves(group["folder"][group["pans"] == pans], column, "mu")
            cells = {mu: mean_std(values) for mu, values in accuracies.iterrows()}
            draw_line(panel, cells, colour, label)
            rows += [{"networks": title, "fusion": label, "mu": mu, "accuracy (%)": cell} for mu, cell in cells.items()]
            middle |= {label: cells[min(cells, key=lambda mu: abs(mu - 0.5))].mean} if cells else {}
        legend(panel)
        if {"OT+Avg", "PANs+OT+Avg"} <= middle.keys():
            gains.append(middle["PANs+OT+Avg"] - middle["OT+Avg"])
    findings: Findings = {"middle": MeanStd(sum(gains) / len(gains), n=len(gains), sign=True)} if gains else {}
    return FigureResult(figure, pd.DataFrame(rows), findings)


RUN_PLOTS = {"fusion": draw}
