"""Interpolation between two networks: accuracy against mu, by averaging and by optimal transport."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.figure_result import FigureResult, grid, panels_of
from fedpan_exp.report.frame import series
from fedpan_exp.report.statistics import SeedStats
from fedpan_exp.report.style import BLUE, GREEN, GREY, ORANGE, save
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, mean_std, table
from fedpan_exp.studies.shared.figures import Findings, Rows, complete_runs, draw_points, titled_panels

LINES = (  # label, PANs, column, colour
    ("Avg", "off", "avg_acc", GREY),
    ("OT+Avg", "off", "ot_acc", BLUE),
    ("PANs+Avg", "on", "avg_acc", GREEN),
    ("PANs+OT+Avg", "on", "ot_acc", ORANGE),
)


def draw_line(axes: Axes, folders: Iterable[Path], column: str, colour: str, label: str) -> dict[float, MeanStd]:
    """The mean over runs with the same values of mu; returns mu -> accuracy."""
    curves = [series(folder, column, "mu") for folder in folders]
    same = [accuracy for mu, accuracy in curves if len(mu) and np.array_equal(mu, curves[0][0])]
    if not same:
        return {}
    cells = [mean_std(SeedStats(tuple(values))) for values in np.transpose(same)]
    points = dict(zip(curves[0][0], cells, strict=True))
    draw_points(axes, points, colour, label)
    axes.set(xlabel=r"$\mu$: from network A (0) to network B (1)", ylabel="test accuracy (%)")
    axes.legend(frameon=False, fontsize=7)
    return points


def draw_run(folder: Path) -> Path | None:
    """metrics.jsonl -> fusion.png; None for a run without interpolated networks."""
    figure, axes = grid(1, 1, 5.0, 3.6)
    drawn = [draw_line(axes[0, 0], [folder], column, colour, label) for label, _, column, colour in LINES[:2]]
    return save(figure, folder, "fusion") if any(drawn) else None


def draw(sweep: Sweep) -> FigureResult:
    panels = panels_of(complete_runs(sweep, "fusion"), ("dataset", "model"))
    figure, axes = titled_panels(panels, 4.2, 3.2)
    rows: Rows = []
    gains = []
    for panel, (title, group) in zip(axes, panels.items(), strict=True):
        middle = {}
        for label, pans, column, colour in LINES:
            points = draw_line(panel, group["folder"][group["pans"] == pans], column, colour, label)
            rows += [[title, label, mu, cell] for mu, cell in points.items()]
            if points:
                middle[label] = points[min(points, key=lambda mu: abs(mu - 0.5))].mean or 0.0
        if {"OT+Avg", "PANs+OT+Avg"} <= middle.keys():
            gains.append(middle["PANs+OT+Avg"] - middle["OT+Avg"])
    findings: Findings = {}
    if gains:
        findings["middle"] = MeanStd(float(np.mean(gains)), n=len(gains), sign=True)
    return FigureResult(figure, table(["networks", "fusion", "mu", "accuracy (%)"], rows), findings)


RUN_PLOTS = (draw_run,)
PAPER_FIGURES = (
    PaperFigure(
        "ot", "Fusing two networks by optimal transport", "PANs make it slightly better.", draw,
        {"dataset": ("mnist", "cifar10"), "model": ("mlp", "vgg9"), "study.epochs": (20,)},
        (Claim("in the middle, OT with PANs minus OT without (points)", "slightly above 0", "middle"),), order=10,
    ),
)  # fmt: skip
