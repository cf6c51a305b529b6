"""The paper's tables: our numbers next to the printed ones, drawn as dots on a line."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from fedpan_exp.report.figure_result import FigureResult, grid
from fedpan_exp.report.frame import VALUE, column, show
from fedpan_exp.report.statistics import best_pan, seed_stats
from fedpan_exp.report.style import GREY, MARKERS, SERIES
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, gain, mean_std, table
from fedpan_exp.studies.federate.lines import RULE, trained_runs
from fedpan_exp.studies.shared.figures import Findings, Rows

OURS = {"PANs off": "FedAvg", "PANs on": "FedAvg+PANs"}  # our labels -> the paper's names
GROWING = "fedma, growing"  # with gamma above 1
OTHERS = {"fedprox": "FedProx", "fedma": "FedMA", GROWING: "FedMA, growing", "fed2": "Fed²", "feddf": "FedDF"}
FEDMA = "FedMA, ours: the model after the last pass; the last five rounds would be of several passes"
Printed = Mapping[str, Mapping[str, float]]  # row -> method -> accuracy in %


def scenes(sweep: Sweep, printed: Printed, notes: Sequence[str] = ()) -> FigureResult:
    """One row per scene (K, R, alpha, E); ours are FedAvg with PANs off and on, and other algorithms."""
    methods = list(dict.fromkeys(method for row in printed.values() for method in row))
    rows: Rows = []
    findings: Findings = {}
    ours: dict[str, dict[str, MeanStd]] = {}
    papers: dict[str, Mapping[str, float]] = {}
    letters = [f"fl_scene.{letter}" for letter in ("K", "R", "alpha", "E")]
    runs = trained_runs(sweep.runs)
    variants = runs["algorithm"].mask(column(runs, "algorithm.gamma") > 1, GROWING)
    others = {algorithm: name for algorithm, name in OTHERS.items() if (variants == algorithm).any()}
    for values, group in runs.groupby(letters, sort=False):
        scene = f"({', '.join(map(show, values))})"
        paper, remark = _nearest(scene, printed)
        point, papers[scene] = best_pan(group[group["algorithm"] == "fedavg"]), printed.get(paper, {})
        off, on = mean_std(point.off), mean_std(point.on)
        findings |= {f"{paper} off": off, f"{paper} on": on}
        cells = {name: _cell(group[variants[group.index] == key]) for key, name in others.items()}
        ours[scene] = {"PANs off": off, "PANs on": on, **cells}
        row = [off, on, point.pan, gain(point.gain), *cells.values()]
        rows.append([scene + remark, *map(papers[scene].get, methods), *row])
    columns = ["(K, R, alpha, E)", *(f"{method}, paper" for method in methods)]
    columns += ["ours, off (%)", "ours, on (%)", "best PAN", "on - off (points)"]
    columns += [f"{name}, ours (%)" for name in others.values()]
    footnotes = [
        *notes,
        RULE,
        *([FEDMA] if "fedma" in others else []),
        *(row[0] for row in rows if "for the paper's" in row[0]),
    ]
    return FigureResult(draw_scores(ours, papers), table(columns, rows), findings, footnotes)


def _cell(runs: pd.DataFrame) -> MeanStd:
    is_fedma = (runs["algorithm"] == "fedma").any()
    return mean_std(seed_stats(runs, "summary/final_acc" if is_fedma else VALUE))


def draw_scores(ours: Mapping[str, Mapping[str, MeanStd]], printed: Printed) -> Figure:
    """Our results are filled, the paper's are hollow; methods that only the paper has are labelled ticks."""
    figure, axes = grid(1, 1, 7.5, max(2.4, 0.6 * len(ours) + 1.2))
    panel = axes[0, 0]
    for y, (name, cells) in enumerate(ours.items()):
        paper = dict(printed.get(name, {}))
        for colour, marker, (label, cell) in zip(SERIES, MARKERS, cells.items(), strict=False):
            if cell.mean is not None:
                panel.errorbar(
                    cell.mean, y + 0.15, xerr=cell.deviation, fmt=marker, color=colour, capsize=3, label=label
                )
            value = paper.pop(OURS.get(label, label), None)
            if value is not None:
                panel.plot(value, y - 0.15, marker, color=colour, markerfacecolor="none", label=f"{label}, paper")
        for lift, (method, value) in enumerate(sorted(paper.items(), key=lambda item: item[1])):
            panel.plot(value, y - 0.15, "|", color=GREY, markersize=9)
            panel.annotate(method, (value, y - 0.26 - 0.14 * (lift % 2)), ha="center", fontsize=7, color=GREY)
    panel.set_yticks(range(len(ours)), list(ours), fontsize=8)
    panel.set(xlabel="accuracy (%)", ylim=(len(ours) - 0.5, -0.7))
    handles, labels = panel.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure.legend(once.values(), once.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _nearest(scene: str, printed: Printed) -> tuple[str, str]:
    """The paper's row of the same scene, or of one that differs only in E; and a remark unless it is the same."""
    if scene in printed:
        return scene, ""
    close = [row for row in printed if row.rsplit(",", 1)[0] == scene.rsplit(",", 1)[0]]
    return (close[0], f" for the paper's {close[0]}") if close else (scene, " is no scene of the paper")
