"""Parts that the figures of several studies share."""

from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedpan_exp.report.figure_result import FigureResult, NoData, grid
from fedpan_exp.report.frame import key, records, show
from fedpan_exp.report.statistics import paired, seed_stats
from fedpan_exp.report.style import BLUE, ORANGE
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, gain, mean_std, table

Findings = dict[str, MeanStd | str]  # answers to the paper's claims, by key
Rows = list[list[Any]]  # of a table


def scene(*datasets: str, **settings: Any) -> dict[str, tuple]:
    """The paper's values by setting; `settings` are those of fl_scene."""
    named = {f"fl_scene.{name}": value if isinstance(value, tuple) else (value,) for name, value in settings.items()}
    return {"dataset": datasets, **named}


def complete_runs(sweep: Sweep, study: str) -> pd.DataFrame:
    """The complete runs of a study that have records."""
    runs = sweep.of(study)
    complete = runs[runs["complete"].astype(bool)]
    complete = complete[[not records(folder).empty for folder in complete["folder"]]]
    if complete.empty:
        raise NoData(f"no run of study={study} in this sweep is complete yet")
    return complete


def records_with(folder: Path, *columns: str) -> pd.DataFrame:
    """The lines of a run's metrics.jsonl that have all these columns."""
    return records(folder).reindex(columns=columns).dropna()


def titled_panels(titles: Iterable[str], width: float, height: float, columns: int = 0) -> tuple[Figure, list[Axes]]:
    """One panel per title, in rows of `columns`, or in one row."""
    titles = list(titles)
    columns = min(columns or len(titles), len(titles))
    figure, axes = grid(-(-len(titles) // columns), columns, width, height)
    for panel, title in zip_longest(axes.flat, titles):
        panel.set_title(title or "", fontsize=9)
        panel.set_visible(title is not None)
    return figure, list(axes.flat[: len(titles)])


def draw_points(
    axes: Axes, points: Mapping[Any, MeanStd], colour: str, label: str, style: str = "o-", evenly: bool = False
) -> None:
    """A line with error bars over x -> value; a value with runs left out is hollow.

    With `evenly`, x are evenly spaced labels, as on the paper's axes.
    """
    if evenly:
        axes.set_xticks(range(len(points)), [show(x) for x in points], fontsize=8)
        axes.margins(x=0.12)
    cells = {i if evenly else x: cell for i, (x, cell) in enumerate(points.items()) if cell.mean is not None}
    if not cells:
        return
    deviations = [cell.deviation or 0 for cell in cells.values()]
    axes.errorbar(
        list(cells), [cell.mean or 0 for cell in cells.values()], deviations if any(deviations) else None, fmt=style,
        color=colour, label=label, linewidth=1.4, markersize=4, capsize=2,
    )  # fmt: skip
    hollow = {x: cell.mean or 0 for x, cell in cells.items() if cell.remark}
    axes.plot(list(hollow), list(hollow.values()), style[0], color=colour, markerfacecolor="white", zorder=5)


def draw_level(axes: Axes, level: MeanStd, colour: str, label: str) -> None:
    """A horizontal line."""
    if level.mean is not None:
        axes.axhline(level.mean, linestyle="--", color=colour, linewidth=1.3, label=label)


def draw_dots(axes: Axes, order: np.ndarray) -> None:
    """order[row] is the column of the dot in that row; dots on the diagonal are blue."""
    neurons = np.arange(len(order))
    size = max(0.4, min(12.0, 500 / len(order)))
    for mask, colour in ((order != neurons, ORANGE), (order == neurons, BLUE)):
        axes.scatter(order[mask], neurons[mask], s=size, color=colour, linewidths=0, rasterized=len(order) > 300)
    axes.set(xlim=(-1, len(order)), ylim=(len(order), -1), aspect="equal")


def compare_neurons(
    sweep: Sweep,
    study: str,
    layer: str,
    read: Callable[[Path], Mapping[str, Any]],
    draw: Callable[[Axes, Any], object],
    size: tuple[float, float],
) -> FigureResult:
    """Draw one layer of a pair of runs, PANs off and on; the table has all runs and layers.

    `read` returns what a run folder has measured, by layer; `draw` draws one layer of it.
    """
    runs, prefix = sweep.of(study), f"summary/{study}/"
    complete = runs[runs["complete"].astype(bool)]
    complete = complete[[bool(read(folder)) for folder in complete["folder"]]]
    if complete.empty:
        raise NoData(f"no run of this sweep has measured a {study} yet")
    layers = list(dict.fromkeys(name for folder in complete["folder"] for name in read(folder)))
    footnotes = [] if layer in layers else [f"these networks have no layer {layer}; {layers[-1]} is shown"]
    layer = layer if layer in layers else layers[-1]
    shown = _first_pair(complete)
    labels = shown["pan"].replace("off", "PANs off")
    fractions = shown[prefix + layer]
    titles = [f"{label}  [{fraction:.3f}]" for label, fraction in zip(labels, fractions, strict=True)]
    figure, axes = titled_panels(titles, *size)
    for panel, folder in zip(axes, shown["folder"], strict=True):
        draw(panel, read(folder)[layer])
    rows: Rows = []
    findings: Findings = {}
    for name in complete.dropna(axis=1, how="all").filter(regex=f"^{prefix}"):
        off, on = (mean_std(seed_stats(runs[runs["pans"] == pans], name)) for pans in ("off", "on"))
        difference = paired(runs, name)
        rows.append([name.removeprefix(prefix), off, on, gain(difference), difference.n])
        if name == prefix + layer:
            findings = {"off": f"{off}%", "on": f"{on}%", "gain": gain(difference)}
    columns = ["layer", "PANs off (%)", "PANs on (%)", "on - off (points)", "pairs"]
    return FigureResult(
        figure, table(columns, rows), findings, [*footnotes, f"shown: seed {shown['seed'].iloc[0]}, {layer}"]
    )


def _first_pair(runs: pd.DataFrame) -> pd.DataFrame:
    """A run with PANs off and the first with PANs on that differs from it in nothing else; if none, the first runs."""
    settings, is_off = key(runs, "pan"), runs["pans"] == "off"
    paired_with = settings[~is_off & settings.isin(settings[is_off])]
    if paired_with.empty:
        return runs[:2]
    return pd.concat([runs[is_off & (settings == paired_with.iloc[0])][-1:], runs.loc[paired_with.index[:1]]])
