"""Interpolation of two separately trained networks: plain averaging, optimal transport, and both with PANs."""

import numpy as np

from fedpan_exp.report.plots.figure_result import FigureResult, grid, panels_of
from fedpan_exp.report.plots.shuffling import complete_runs
from fedpan_exp.report.runs import Run
from fedpan_exp.report.style import BLUE, GREEN, GREY, ORANGE
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, Table, Value

LINES = (  # name, whether PANs are off, column, colour
    ("Avg", True, "avg_acc", GREY),
    ("OT+Avg", True, "ot_acc", BLUE),
    ("PANs+Avg", False, "avg_acc", GREEN),
    ("PANs+OT+Avg", False, "ot_acc", ORANGE),
)


def draw(sweep: Sweep) -> FigureResult:
    panels = panels_of(complete_runs(sweep, "fusion"), ("dataset", "model"))
    figure, axes = grid(1, len(panels), 4.2, 3.2)
    rows: list[list[Value]] = []
    gains = []
    for panel, (title, group) in zip(axes.flat, panels.items(), strict=True):
        middle: dict[str, float] = {}
        for name, off, column, colour in LINES:
            mu, accuracy = _curves([run for run in group if run.is_off == off], column)
            if not len(mu):
                continue
            panel.plot(mu, 100 * accuracy.mean(0), color=colour, marker="o", markersize=3, label=name)
            middle[name] = 100 * float(accuracy.mean(0)[np.argmin(abs(mu - 0.5))])
            rows += [[title, name, float(m), _mean_std(values)] for m, values in zip(mu, accuracy.T, strict=True)]
        if {"OT+Avg", "PANs+OT+Avg"} <= middle.keys():
            gains.append(middle["PANs+OT+Avg"] - middle["OT+Avg"])
        panel.set(xlabel="$\\mu$", ylabel="accuracy (%)")
        panel.set_title(title, fontsize=9)
        panel.legend(frameon=False, fontsize=7)
    findings: dict[str, MeanStd | str] = (
        {"middle": MeanStd(float(np.mean(gains)), n=len(gains), sign=True)} if gains else {}
    )
    return FigureResult(figure, Table(["networks", "fusion", "mu", "accuracy (%)"], rows), findings)


def _curves(runs: list[Run], column: str) -> tuple[np.ndarray, np.ndarray]:
    """mu, and accuracies [runs, mu] of the runs with the same values of mu."""
    curves = [run.series(column, "mu") for run in runs]
    curves = [curve for curve in curves if len(curve[0]) and np.array_equal(curve[0], curves[0][0])]
    if not curves:
        return np.empty(0), np.empty((0, 0))
    return curves[0][0], np.array([accuracy for _, accuracy in curves])


def _mean_std(values: np.ndarray) -> MeanStd:
    deviation = float(values.std(ddof=1)) * 100 if len(values) > 1 else None
    return MeanStd(100 * float(values.mean()), deviation, len(values))
