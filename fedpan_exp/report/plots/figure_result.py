"""What a drawing hands back, and the axes it draws on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedpan_exp.report.runs import Run, show
from fedpan_exp.report.style import tidy
from fedpan_exp.report.tables import MeanStd, Table


@dataclass
class FigureResult:
    """An exhibit as we found it. `found` answers the paper's claims, by their keys."""

    figure: Figure
    table: Table
    found: dict[str, MeanStd | str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class NoData(Exception):
    """A sweep without a single run that the exhibit could be drawn from; says why."""


def grid(rows: int, columns: int, width: float = 3.0, height: float = 2.5) -> tuple[Figure, np.ndarray]:
    """Axes [rows, columns], tidied."""
    figure = Figure(figsize=(max(width * columns, 3.6), max(height * rows, 2.5)), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for panel in axes.flat:
        tidy(panel)
        panel.set_axisbelow(True)
    return figure, axes


def key_below(figure: Figure, axes: Axes, columns: int = 4) -> None:
    """One legend for all panels."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def values_of(runs: Iterable[Run], setting: str) -> list[Any]:
    """In rising order, numbers before words; each once."""
    found = {show(value): value for run in runs if (value := run.setting(setting)) is not None}
    return sorted(found.values(), key=lambda value: (0, value) if isinstance(value, int | float) else (1, str(value)))


def panels_of(runs: Sequence[Run], settings: Sequence[str]) -> dict[str, list[Run]]:
    """Runs by those of the settings in which they differ, under a title that tells them apart."""
    varying = [setting for setting in settings if len(values_of(runs, setting)) > 1] or settings[:1]
    panels: dict[str, list[Run]] = {}
    for run in runs:
        panels.setdefault(", ".join(show(run.setting(setting)) for setting in varying), []).append(run)
    return dict(sorted(panels.items()))


def thin(x: np.ndarray, y: np.ndarray, points: int = 250) -> tuple[np.ndarray, np.ndarray]:
    """Of a long curve, evenly chosen points with both ends; a print shows no more."""
    if len(x) <= points:
        return x, y
    chosen = np.unique(np.linspace(0, len(x) - 1, points).astype(int))
    return x[chosen], y[chosen]
