"""The paper's tables: our numbers next to the printed ones, drawn as dots on a line."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from fedpan_exp.report.figure import FigureResult, Findings, legend_below, panels
from fedpan_exp.report.frame import VALUE, column, show
from fedpan_exp.report.statistics import MeanStd, best_pan, seed_stats
from fedpan_exp.report.style import GREY, SERIES
from fedpan_exp.studies.federate.lines import RULE, trained_runs

GROWING = "fedma, growing"  # with gamma above 1
NAMES = {"fedprox": "FedProx", "fedma": "FedMA", GROWING: "FedMA, growing", "fed2": "Fed²", "feddf": "FedDF"}
FEDMA = "FedMA, ours: the model after the last pass; the last five rounds would be of several passes"
MARKERS = "osD^vPX*"
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
    variants = runs["algorithm"].mask(column(runs, "algorithm.gamma") > 1, GROWING)
    run_here = {key: name for key, name in NAMES.items() if (variants == key).any()}
    if "fedma" in run_here:
        footnotes.append(FEDMA)
    for values, group in runs.groupby(SCENE, sort=False):
        scene = f"({', '.join(map(show, values))})"
        # A scene of the paper, or one that differs from it only in E.
        paper = next((row for row in sorted(others, key=scene.__ne__) if _without_E(row) == _without_E(scene)), scene)
        best = best_pan(group[group["algorithm"] == "fedavg"])
        cells = {name: _stats(group[variants[group.index] == key]) for key, name in run_here.items()}
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


def _stats(runs: pd.DataFrame) -> MeanStd:
    return seed_stats(runs, "summary/final_acc" if (runs["algorithm"] == "fedma").any() else VALUE)


def _without_E(scene: str) -> str:
    return scene.rsplit(",", 1)[0]


def draw_scores(ours: Mapping[str, Mapping[str, MeanStd]], printed: Printed) -> Figure:
    """Our results are filled, the paper's are hollow; methods that only the paper has are labelled ticks."""
    figure, (panel,) = panels([""], "accuracy (%)", size=(7.5, max(2.4, 0.6 * len(ours) + 1.2)))
    for y, (name, cells) in enumerate(ours.items()):
        paper = dict(printed.get(name, {}))
        for colour, marker, (label, cell) in zip(SERIES, MARKERS, cells.items(), strict=False):
            panel.errorbar(cell.mean, y + 0.15, xerr=cell.deviation, fmt=marker, color=colour, capsize=3, label=label)
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
