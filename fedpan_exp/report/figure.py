"""What a figure is made of: panels, lines with error bars; and what it returns with its picture."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedpan_exp.report.frame import column, records, show
from fedpan_exp.report.statistics import MeanStd
from fedpan_exp.report.style import GREY
from fedpan_exp.system.atomic_io import atomic_write

Findings = dict[str, MeanStd | str]  # answers to the paper's claims, by key


@dataclass
class FigureResult:
    """A figure with its table, whose cells may be MeanStd."""

    figure: Figure
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    findings: Findings = field(default_factory=dict)
    footnotes: list[str] = field(default_factory=list)


class NoData(Exception):
    """There is no run that the figure could be drawn from; the message is the reason."""


def complete_runs(runs: pd.DataFrame, study: str, metric: str = "round") -> pd.DataFrame:
    """The complete runs of a study that have recorded this metric."""
    complete = runs[(runs["study"] == study) & runs["complete"]]
    complete = complete.loc[[column(records(folder), metric).notna().any() for folder in complete["folder"]]]
    if complete.empty:
        raise NoData(f"no complete run of study={study} in this sweep has recorded a {metric} yet")
    return complete


def panels(
    titles: Iterable[str],
    xlabel: str = "",
    ylabel: str = "",
    size: tuple[float, float] = (3.8, 3.0),
    columns: int = 0,
    **layout: Any,
) -> tuple[Figure, list[Axes]]:
    """A figure with one panel of this size per title, in rows of `columns` or in one row, labelled at the edges."""
    titles = list(titles)
    columns = min(columns or len(titles), len(titles))
    rows, (width, height) = -(-len(titles) // columns), size
    figure = Figure(figsize=(max(width * columns, 3.6), max(height * rows, 2.5)), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **layout).flat
    for i, (panel, title) in enumerate(zip_longest(axes, titles)):
        panel.set_visible(title is not None)
        panel.set_title(title or "", fontsize=9)
        panel.set_ylabel("" if i % columns else ylabel)
        panel.set_xlabel(xlabel if i + columns >= len(titles) else "")
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_axisbelow(True)
    return figure, list(axes[: len(titles)])


def draw_line(axes: Axes, cells: Mapping[Any, MeanStd], colour: Any, label: str = "", style: str = "o-") -> None:
    """Means with error bars over x, evenly spaced if x are texts. A value with runs left out is hollow."""
    axes.xaxis.update_units(list(cells))  # texts keep their order, also where a value is missing
    cells = {x: cell for x, cell in cells.items() if not np.isnan(cell.mean)}
    if not cells:
        return
    line = {"color": colour, "label": label or None, "linewidth": 1.4, "markersize": 4, "capsize": 2}
    deviations = [cell.deviation for cell in cells.values()]
    errors = None if np.isnan(deviations).all() else deviations
    axes.errorbar(list(cells), [cell.mean for cell in cells.values()], errors, fmt=style, **line)
    hollow = [cell.mean if cell.remark else np.nan for cell in cells.values()]
    axes.plot(list(cells), hollow, style[0], color=colour, markersize=4, markerfacecolor="white", zorder=5)


def draw_level(axes: Axes, level: MeanStd, colour: str, label: str) -> None:
    axes.axhline(level.mean, linestyle="--", color=colour, linewidth=1.3, label=label)


def legend(axes: Axes, **options: Any) -> None:
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=7, **options)


def legend_below(figure: Figure, axes: Axes) -> None:
    """One legend for all panels."""
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    if once:
        figure.legend(once.values(), once.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)


def values_of(runs: pd.DataFrame, setting: str) -> list[Any]:
    """The distinct values of a setting in rising order, numbers before text."""
    values = {show(value): value for value in column(runs, setting).dropna().tolist()}
    return sorted(values.values(), key=lambda value: (0, value) if isinstance(value, int | float) else (1, str(value)))


def panels_of(runs: pd.DataFrame, settings: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Runs grouped by those of the settings in which they differ; the keys are panel titles."""
    varying = [setting for setting in settings if len(values_of(runs, setting)) > 1] or settings[:1]
    titles = pd.concat([column(runs, setting).map(show) for setting in varying], axis=1).agg(", ".join, axis=1)
    return {str(title): group for title, group in runs.groupby(titles)}


def save(figure: Figure, folder: Path, name: str) -> None:
    """Save the picture of one run in its folder."""
    figure.suptitle(folder.name, fontsize=9, color=GREY)
    atomic_write(folder / f"{name}.png", lambda path: figure.savefig(path, dpi=150))
