"""What a figure returns, and helpers for its panels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedpan_exp.report.frame import column, show
from fedpan_exp.report.style import tidy
from fedpan_exp.report.tables import MeanStd


@dataclass
class FigureResult:
    """A figure with its table, whose cells may be MeanStd. `findings` answer the paper's claims, by key."""

    figure: Figure
    table: pd.DataFrame
    findings: dict[str, MeanStd | str] = field(default_factory=dict)
    footnotes: list[str] = field(default_factory=list)


class NoData(Exception):
    """A sweep has no run that the figure could be drawn from; the message is the reason."""


def grid(rows: int, columns: int, width: float = 3.0, height: float = 2.5) -> tuple[Figure, np.ndarray]:
    """A figure and its axes [rows, columns]."""
    figure = Figure(figsize=(max(width * columns, 3.6), max(height * rows, 2.5)), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for panel in axes.flat:
        tidy(panel)
        panel.set_axisbelow(True)
    return figure, axes


def legend_below(figure: Figure, axes: Axes, columns: int = 4) -> None:
    """One legend for all panels."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def values_of(runs: pd.DataFrame, setting: str) -> list[Any]:
    """The distinct values of a setting in rising order, numbers before text."""
    values = {show(value): value for value in column(runs, setting).dropna().tolist()}
    return sorted(values.values(), key=lambda value: (0, value) if isinstance(value, int | float) else (1, str(value)))


def panels_of(runs: pd.DataFrame, settings: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Runs grouped by those of the settings in which they differ; the keys are panel titles."""
    varying = [setting for setting in settings if len(values_of(runs, setting)) > 1] or settings[:1]
    titles = pd.concat([column(runs, setting).map(show) for setting in varying], axis=1).agg(", ".join, axis=1)
    return {str(title): group for title, group in runs.groupby(titles)}


def thin(x: np.ndarray, y: np.ndarray, points: int = 250) -> tuple[np.ndarray, np.ndarray]:
    """Evenly selected points of a long curve, with both ends; a figure resolves no more."""
    if len(x) <= points:
        return x, y
    selected = np.unique(np.linspace(0, len(x) - 1, points).astype(int))
    return x[selected], y[selected]
