"""The paper's tables: our numbers next to the printed ones, drawn as dots on a line."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedpan_exp.report.figure import FigureResult, Findings, legend_below, panels
from fedpan_exp.report.frame import VALUE, column, show
from fedpan_exp.report.statistics import MeanStd, best_pan, seed_stats
from fedpan_exp.report.style import GREY, SERIES
from fedpan_exp.studies.federate.lines import RULE, trained_runs

NAMES = {"fedprox": "FedProx", "fedma": "FedMA", "fed2": "Fed²", "feddf": "FedDF"}
FEDMA = "FedMA, ours: the model after the last pass; the last five rounds would be of several passes"
MARKERS = "osD^vPX*<>"
SCENE = [f"fl_scene.{letter}" for letter in ("K", "R", "alpha", "E")]
Printed = Mapping[str, Mapping[str, float]]  # row -> method -> accuracy in %


def scenes(
    runs: pd.DataFrame, expected: Mapping[str, float], others: Printed, notes: Sequence[str] = ()
) -> FigureResult:
    """One row per scene (K, R, alpha, E): FedAvg with PANs off and on, other algorithms, and the paper's of both."""
    runs = trained_runs(runs)
    methods = list(dict.fromkeys(method for row in others.values() for method in row))
    rows: list[dict[str, Any]] = []
    findings: Findings = {}
    ours: dict[str, dict[str, MeanStd]] = {}
    printed: dict[str, dict[str, float]] = {}
    footnotes = [*notes, RULE]
    names, order = method_names(runs), list(NAMES.values())
    run_here = sorted(names.dropna().unique(), key=lambda name: (order.index(name.split(",")[0]), name))
    if (runs["algorithm"] == "fedma").any():
        footnotes.append(FEDMA)
    for values, group in runs.groupby(SCENE, sort=False):
        scene = f"({', '.join(map(show, values))})"
        # A scene of the paper, or one that differs from it only in E.
        paper = next((row for row in sorted(others, key=scene.__ne__) if _without_E(row) == _without_E(scene)), scene)
        best = best_pan(group[group["algorithm"] == "fedavg"])
        cells = {name: _stats(group[names[group.index] == name]) for name in run_here}
        ours[scene] = {"PANs off": best.off, "PANs on": best.on, **cells}
        if paper == scene or f"{paper} off" not in findings:
            findings |= {f"{paper} off": best.off, f"{paper} on": best.on}
        known = {f"PANs {pans}": expected.get(f"{paper} {pans}") for pans in ("off", "on")}
        known |= others.get(paper, {})
        printed[scene] = {method: value for method, value in known.items() if value is not None}
        if paper != scene:
            footnotes.append(f"{scene} for the paper's {paper}")
        papers = {f"{method}, paper": known.get(method) for method in ("PANs off", "PANs on", *methods)}
        row = {"(K, R, alpha, E)": scene, **papers, **best.cells()}
        rows.append(row | {f"{name}, ours (%)": cell for name, cell in cells.items()})
    return FigureResult(draw_scores(ours, printed), pd.DataFrame(rows), findings, footnotes)


def method_names(runs: pd.DataFrame) -> pd.Series:
    """Such as "FedProx" or "FedMA, growing, common start"; missing for algorithms that the paper's tables lack."""
    growing = (column(runs, "algorithm.gamma") > 1).map({True: ", growing", False: ""})
    common = (column(runs, "algorithm.init") == "common").map({True: ", common start", False: ""})
    return runs["algorithm"].map(NAMES) + growing + common


def _stats(runs: pd.DataFrame) -> MeanStd:
    return seed_stats(runs, "summary/final_acc" if (runs["algorithm"] == "fedma").any() else VALUE)


def _without_E(scene: str) -> str:
    return scene.rsplit(",", 1)[0]


def draw_scores(ours: Mapping[str, Mapping[str, MeanStd]], printed: Printed) -> Figure:
    """Our results are filled, the paper's are hollow; methods that only the paper has are labelled ticks."""
    figure, (panel,) = panels([""], "accuracy (%)", size=(7.5, max(2.4, 1.1 * len(ours) + 1.2)))
    for y, (name, cells) in enumerate(ours.items()):
        paper = dict(printed.get(name, {}))
        heights = np.linspace(y + 0.05, y + 0.4, len(cells))  # one below the other: they may be equal
        looks = zip(cycle(SERIES), cycle(MARKERS), heights, cells.items(), strict=False)
        for colour, marker, height, (label, cell) in looks:
            panel.errorbar(cell.mean, height, xerr=cell.deviation, fmt=marker, color=colour, markersize=4, label=label)
            if label in paper:
                hollow: dict[str, Any] = {"color": colour, "markerfacecolor": "none", "label": f"{label}, paper"}
                panel.plot(paper.pop(label), y - 0.15, marker, **hollow)
        for lift, (method, value) in enumerate(sorted(paper.items(), key=lambda item: item[1])):
            panel.plot(value, y - 0.15, "|", color=GREY, markersize=9)
            panel.annotate(method, (value, y - 0.26 - 0.14 * (lift % 2)), ha="center", fontsize=7, color=GREY)
    panel.set_yticks(range(len(ours)), list(ours), fontsize=8)
    panel.set_ylim(len(ours) - 0.5, -0.7)
    legend_below(figure, panel)
    return figure
