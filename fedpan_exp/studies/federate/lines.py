"""Accuracy against a swept setting: PANs off and on, one line per kind of PAN, and which PAN is best."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from fedpan_exp.report.figure import (
    FigureResult,
    Findings,
    NoData,
    draw_level,
    draw_line,
    legend_below,
    panels,
    panels_of,
    values_of,
)
from fedpan_exp.report.frame import PAN_NAMES, VALUE, column, key, show
from fedpan_exp.report.statistics import (
    BestPan,
    MeanStd,
    best_pan,
    gain_cells,
    mean_std,
    pair_gains,
    seed_stats,
    stats_by,
)
from fedpan_exp.report.style import GREEN, OFF, ON, SERIES

COLOURS = {"add": GREEN, "mul": ON}
RULE = (
    "best PAN: highest mean of the last five rounds over the seeds that off and all PANs of the cell share; selected "
    "and measured on the same runs; `of it by choosing` is what the best of equally good PANs is expected to gain"
)


def trained_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Complete runs with an accuracy, and incomplete runs, which are counted as left out."""
    runs = runs[column(runs, VALUE).notna() | ~runs["complete"]]
    if not runs["complete"].any():
        raise NoData("no run of this sweep has an accuracy yet")
    return runs


def off_on(runs: pd.DataFrame, settings: Sequence[str]) -> FigureResult:
    """Panels by dataset and algorithm for each setting, with the other settings fixed at their most common value."""
    runs = trained_runs(runs)
    parts: dict[tuple[str, str], dict[str, BestPan]] = {}  # name of the setting, title of the panel -> by value
    for setting in settings:
        fixed, selected = fix_others(runs, setting, settings)
        for title, group in panels_of(selected, ("dataset", "algorithm")).items():
            by_value = group.groupby(column(group, setting), dropna=False)
            parts[setting.split(".")[-1], title + fixed] = {show(value): best_pan(same) for value, same in by_value}
    columns = min(5, -(-len(parts) // len(settings)))
    size = 3.4 if columns < 4 else 2.3, 2.5
    figure, axes = panels([title for _, title in parts], ylabel="accuracy (%)", size=size, columns=columns)
    rows, gains = [], defaultdict(list)
    for panel, ((name, title), bests) in zip(axes, parts.items(), strict=True):
        draw_line(panel, {value: best.off for value, best in bests.items()}, OFF, "PANs off", "o--")
        draw_line(panel, {value: best.on for value, best in bests.items()}, ON, "PANs on", "s-")
        panel.set_xlabel(name)
        for value, best in bests.items():
            rows.append({"panel": title, "setting": f"{name}={value}", **best.cells()})
            gains[f"{name}={value}"].append(best)
    legend_below(figure, axes[0])
    on = runs[runs["pans"] == "on"]
    several_tried = on["pan"].groupby(key(on, "pan", "seed")).nunique().gt(1).any()
    return FigureResult(figure, pd.DataFrame(rows), gain_findings(gains), [RULE] if several_tried else [])


def gain_findings(bests: Mapping[str, list[BestPan]]) -> Findings:
    """`gains` per value of the setting, and `fair gain`: corrected for choosing the best PAN, a mean per seed, because
    runs of one seed are not independent."""
    pooled = {value: pd.concat([best.gains for best in parts]) for value, parts in bests.items()}
    each = [f"{value}: {100 * part.mean():+z.2f}" for value, part in pooled.items() if len(part)]
    fair = pd.concat([best.fair_gains for parts in bests.values() for best in parts] or [pd.Series(dtype=float)])
    return {
        "gains": ", ".join(each),
        "fair gain": mean_std(fair.groupby(level=0).mean(), sign=True),
    }


def pans(runs: pd.DataFrame, settings: Sequence[str]) -> FigureResult:
    """PAN+ and PAN∘ against each of the settings (pan.A, pan.T), with PANs off as a horizontal line."""
    datasets = panels_of(trained_runs(runs), ("dataset",))
    parts = [(setting, *item) for item in datasets.items() for setting in settings]
    columns = 2 if len(parts) > 3 else 3
    figure, axes = panels([title for _, title, _ in parts], ylabel="accuracy (%)", size=(3.8, 2.5), columns=columns)
    rows: list[dict[str, Any]] = []
    findings: dict[str, str] = defaultdict(str)
    for panel, (setting, title, group) in zip(axes, parts, strict=True):
        drawn, answers = draw_pans(panel, group, setting, settings)
        rows += [{"panel": title, **row} for row in drawn]
        for name, answer in answers.items():
            findings[name] = answer if len(datasets) == 1 else f"{findings[name]}; {title}: {answer}".lstrip("; ")
    legend_below(figure, axes[0])
    return FigureResult(figure, pd.DataFrame(rows), dict(findings))


def draw_pans(
    axes: Axes, runs: pd.DataFrame, setting: str, settings: Sequence[str]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the rows of the table, and the best value and the spread of each line."""
    short, off, gains = setting.split(".")[-1], runs[runs["pans"] == "off"], pair_gains(runs)
    on = runs[runs["pans"] == "on"]
    rows: list[dict[str, Any]] = []
    findings: dict[str, str] = {}
    if len(off):
        level = seed_stats(off)
        rows.append({"PAN": "off", "setting": "", "accuracy (%)": level, **gain_cells(gains[off.index])})
        draw_level(axes, level, OFF, "PANs off")
    ticks = {show(value): MeanStd() for value in values_of(runs, setting) if value}
    others = [mode for mode in values_of(on, "pan.mode") if mode not in COLOURS]
    for mode, colour in [*COLOURS.items(), *zip(others, SERIES[3:], strict=False)]:
        name = PAN_NAMES.get(mode, mode)
        fixed, selected = fix_others(on[on["pan.mode"] == mode], setting, settings)
        cells = {show(value): cell for value, cell in stats_by(selected, setting).items()}
        draw_line(axes, ticks | cells, colour, name, "s-")
        for value, cell in cells.items():
            same = selected.index[column(selected, setting).map(show) == value]
            row = {"PAN": name, "setting": f"{short}={value}{fixed}", "accuracy (%)": cell}
            rows.append(row | gain_cells(gains[same]))
        means = pd.Series({value: cell.mean for value, cell in cells.items()}, dtype=float).dropna()
        if len(means):
            findings[f"best {mode} {short}"] = f"{means.idxmax()} ({means.max():.2f}%)"
            findings[f"spread {mode} {short}"] = f"{means.max() - means.min():.2f} points"
    axes.set_xlabel(short)
    return rows, findings


def best_A(runs: pd.DataFrame, all_runs: pd.DataFrame) -> FigureResult:
    """Left: accuracy against A. Right: how often each PAN is best, over all runs."""
    runs = trained_runs(runs)
    dataset = runs["dataset"].iloc[0]
    best = winners(all_runs)
    percentages = 100 * best.value_counts(normalize=True).sort_index()
    figure, (left, right) = panels([dataset, ""], size=(4.0, 3.0))
    rows, answers = draw_pans(left, runs, "pan.A", ["pan.A"])
    findings: Findings = dict(answers)
    left.set_ylabel("accuracy (%)")
    legend_below(figure, left)
    colours = [OFF if pan == "off" else GREEN if "+" in pan else ON for pan in percentages.index]
    right.barh(percentages.index, percentages, color=colours)
    right.set_xlabel(f"best in % of {len(best)} settings")
    right.invert_yaxis()
    rows += [
        {"PAN": pan, "setting": "best setting", "accuracy (%)": f"{percentage:.0f}% of {len(best)}"}
        for pan, percentage in percentages.items()
    ]
    if len(best):
        findings["off best"] = MeanStd(percentages.get("off", 0.0), n=len(best), digits=0)
    footnotes = [f"right: over the {len(best)} settings that were run with PANs off and on"]
    return FigureResult(figure, pd.DataFrame(rows), findings, footnotes)


def winners(runs: pd.DataFrame) -> pd.Series:
    """The best PAN, or off, of each setting: by the mean of the last five over the seeds that all of it share."""
    federated = runs[runs["study"] == "federate"]
    settings = [best_pan(group) for _, group in federated.groupby(key(federated, "pan", "seed"), sort=False)]
    compared = [best for best in settings if best.pan != "off" and len(best.gains)]
    return pd.Series([best.pan if best.on.mean > best.off.mean else "off" for best in compared], dtype=object)


def fix_others(runs: pd.DataFrame, setting: str, settings: Sequence[str]) -> tuple[str, pd.DataFrame]:
    """The runs in which the other settings have their most common value, and a label of the fixed values."""
    label = ""
    for other in (name for name in settings if name != setting):
        counts = column(runs, other).value_counts(sort=False)
        if len(counts) > 1:
            runs = runs[runs[other] == counts.idxmax()]
            label += f", {other.split('.')[-1]}={show(counts.idxmax())}"
    return label, runs
