"""Accuracy against a swept setting: PANs off and on, or one line per kind of PAN."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedpan_exp.report.figure_result import FigureResult, NoData, legend_below, panels_of, values_of
from fedpan_exp.report.frame import PAN_NAMES, VALUE, column, key, show
from fedpan_exp.report.statistics import BestPan, Paired, best_pan, paired, seed_stats
from fedpan_exp.report.style import GREEN, OFF, ON
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, gain, mean_std, table
from fedpan_exp.studies.shared.figures import Findings, Rows, draw_level, draw_points, titled_panels

COLOURS = {"add": GREEN, "mul": ON}
OFF_ON_COLUMNS = ["PANs off (%)", "best PAN", "PANs on (%)", "on - off (points)", "pairs"]
PAN_COLUMNS = ["panel", "PAN", "setting", "accuracy (%)", "on - off (points)", "pairs"]
RULE = (
    "best PAN: highest mean of the last five rounds over the seeds that off and all PANs of the cell share; selected "
    "and measured on the same runs, which is optimistic where several were tried"
)


def trained_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Complete runs with an accuracy, and incomplete runs, which are counted as left out."""
    runs = runs[column(runs, VALUE).notna() | ~runs["complete"].astype(bool)]
    if not runs["complete"].any():
        raise NoData("no run of this sweep has an accuracy yet")
    return runs


def off_on(sweep: Sweep, settings: Sequence[str]) -> FigureResult:
    """Panels by dataset and algorithm for each setting, with the other settings fixed at their most common value."""
    runs = trained_runs(sweep.runs)
    parts = []
    for setting in settings:
        fixed, selected = fix_others(runs, setting, settings)
        panels = panels_of(selected, ("dataset", "algorithm"))
        parts += [(setting, title + fixed, group) for title, group in panels.items()]
    columns = min(5, -(-len(parts) // len(settings)))
    figure, axes = titled_panels([title for _, title, _ in parts], 3.4 if columns < 4 else 2.3, 2.5, columns)
    rows: Rows = []
    gains: dict[str, list[float]] = {}
    for panel, (setting, title, group) in zip(axes, parts, strict=True):
        short = setting.split(".")[-1]
        points = {value: best_pan(same) for value, same in group.groupby(column(group, setting))}
        for label, pans, colour, style in (("PANs off", "off", OFF, "o--"), ("PANs on", "on", ON, "s-")):
            cells = {value: mean_std(getattr(point, pans)) for value, point in points.items()}
            draw_points(panel, cells, colour, label, style, evenly=True)
        panel.set(xlabel=short, ylabel="accuracy (%)")
        for value, point in points.items():
            rows.append([title, f"{short}={show(value)}", *off_on_cells(point)])
            gains.setdefault(f"{short}={show(value)}", []).extend(point.gain.differences if point.gain else [])
    legend_below(figure, axes[0])
    on = runs[runs["pans"] == "on"]
    several_tried = on["pan"].groupby(key(on, "pan", "seed")).nunique().gt(1).any()
    footnotes = [RULE] if several_tried else []
    return FigureResult(figure, table(["panel", "setting", *OFF_ON_COLUMNS], rows), gain_findings(gains), footnotes)


def gain_findings(gains: Mapping[str, Sequence[float]]) -> Findings:
    """`gain` over all pairs, and `gains` per value of the setting."""
    everything = tuple(difference for differences in gains.values() for difference in differences)
    each = [f"{value}: {100 * np.mean(differences):+.2f}" for value, differences in gains.items() if differences]
    return {"gain": gain(Paired(everything)), "gains": ", ".join(each) or "–"}


def off_on_cells(point: BestPan) -> list[Any]:
    pairs = point.gain.n if point.gain else 0
    return [mean_std(point.off), point.pan, mean_std(point.on), gain(point.gain), pairs]


def pan_against(sweep: Sweep, settings: Sequence[str]) -> FigureResult:
    """PAN+ and PAN∘ against each of the settings (pan.A, pan.T), with PANs off as a horizontal line."""
    datasets = panels_of(trained_runs(sweep.runs), ("dataset",))
    panels = [(setting, *item) for item in datasets.items() for setting in settings]
    figure, axes = titled_panels([title for _, title, _ in panels], 3.8, 2.5, 2 if len(panels) > 3 else 3)
    rows: Rows = []
    findings: Findings = {}
    for panel, (setting, title, group) in zip(axes, panels, strict=True):
        more = draw_pans(panel, group, setting, settings, title)
        rows, findings = rows + more[0], findings | more[1]
    legend_below(figure, axes[0])
    return FigureResult(figure, table(PAN_COLUMNS, rows), findings)


def draw_pans(
    axes: Axes, runs: pd.DataFrame, setting: str, settings: Sequence[str], title: str
) -> tuple[Rows, Findings]:
    """Return the rows of the table, and the best value and the spread of each line."""
    short = setting.split(".")[-1]
    off = runs[runs["pans"] == "off"]
    rows: Rows = []
    findings: Findings = {}
    if len(off):
        level = mean_std(seed_stats(off))
        rows.append([title, "off", "", level, MeanStd(None, n=0), 0])
        draw_level(axes, level, OFF, "PANs off")
    ticks = [value for value in values_of(runs, setting) if value]
    for mode, colour in COLOURS.items():
        fixed, selected = fix_others(runs[(runs["pans"] == "on") & (runs["pan.mode"] == mode)], setting, settings)
        by_value = dict(iter(selected.groupby(column(selected, setting))))
        if not by_value:
            continue
        cells = {value: mean_std(seed_stats(same)) for value, same in by_value.items()}
        points = {tick: cells.get(tick, MeanStd(None)) for tick in ticks}
        draw_points(axes, points, colour, PAN_NAMES[mode], "s-", evenly=True)
        for value, cell in cells.items():
            difference = paired(pd.concat([by_value[value], off]))
            label = f"{short}={show(value)}{fixed}"
            rows.append([title, PAN_NAMES[mode], label, cell, gain(difference), difference.n])
        means = {value: cell.mean for value, cell in cells.items() if cell.mean is not None}
        if means:
            best = max(means, key=lambda value: means[value])
            findings[f"best {mode} {short}"] = f"{show(best)} ({means[best]:.2f}%)"
            findings[f"spread {mode} {short}"] = f"{max(means.values()) - min(means.values()):.2f} points"
    axes.set(xlabel=short, ylabel="accuracy (%)")
    return rows, findings


def fix_others(runs: pd.DataFrame, setting: str, settings: Sequence[str]) -> tuple[str, pd.DataFrame]:
    """The runs in which the other settings have their most common value, and a label of the values thus fixed."""
    label = ""
    for other in (name for name in settings if name != setting):
        counts = Counter(column(runs, other).dropna())
        if len(counts) > 1:
            usual = counts.most_common(1)[0][0]
            runs = runs[runs[other] == usual]
            label += f", {other.split('.')[-1]}={show(usual)}"
    return label, runs
