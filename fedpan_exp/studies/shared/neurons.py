"""Figures of studies that compare the neurons of a global and a local model, layer by layer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedpan_exp.report.figure import FigureResult, Findings, NoData, panels
from fedpan_exp.report.frame import key
from fedpan_exp.report.statistics import gain_cells, mean_of_seeds, pair_gains, seed_stats
from fedpan_exp.report.style import BLUE, GREY, ORANGE


@dataclass(frozen=True)
class NeuronFigure:
    """How a study draws its layers."""

    study: str
    read: Callable[[Path], Mapping[str, Any]]  # what a run folder has measured, by layer
    draw_layer: Callable[[Axes, Any], object]
    fraction: str  # what the number in a panel's title is
    size: tuple[float, float]  # of a panel
    run_size: tuple[float, float]  # of a panel in the picture of one run
    run_columns: int

    def layers_of(self, runs: pd.DataFrame) -> list[str]:
        """The layers that complete runs have measured, in the order in which the study was given them."""
        complete = runs[runs["complete"]].dropna(axis=1, how="all")
        prefix = f"summary/{self.study}/"
        layers = [name.removeprefix(prefix) for name in complete if name.startswith(prefix)]
        if not any(map(self.read, complete["folder"])) or not layers:
            raise NoData(f"no run of this sweep has measured a {self.study} yet")
        return layers

    def draw_run(self, runs: pd.DataFrame) -> FigureResult:
        """All layers of one run."""
        shown = [(layer, runs.iloc[0], layer) for layer in self.layers_of(runs)]
        return FigureResult(self._draw(shown, self.run_size, self.run_columns))

    def draw(self, runs: pd.DataFrame, layer: str = "") -> FigureResult:
        """One layer of a pair of runs, PANs off and on; the table has all runs and layers."""
        layers, footnotes = self.layers_of(runs), []
        if layer not in layers:
            footnotes = [f"these networks have no layer {layer}; {layers[-1]} is shown"] if layer else []
            layer = layers[-1]
        shown = _first_pair(runs[runs["complete"]])
        panels_shown = [(str(run["pan"]).replace("off", "PANs off"), run, layer) for _, run in shown.iterrows()]
        rows = []
        findings: Findings = {}
        for name in layers:
            value = f"summary/{self.study}/{name}"
            off, on = (seed_stats(runs[runs["pans"] == pans], value) for pans in ("off", "on"))
            gains = pair_gains(runs, value)
            rows.append({"layer": name, "PANs off (%)": off, "PANs on (%)": on, **gain_cells(gains)})
            if name == layer:
                findings = {"off": off, "on": on, "gain": mean_of_seeds(gains, runs)}
        footnotes.append(f"shown: seed {shown['seed'].iloc[0]}, {layer}")
        return FigureResult(self._draw(panels_shown, self.size), pd.DataFrame(rows), findings, footnotes)

    def _draw(self, shown: list[tuple[str, pd.Series, str]], size: tuple[float, float], columns: int = 0) -> Figure:
        """One panel per (title, run, layer)."""
        titles = [f"{title}  [{run[f'summary/{self.study}/{layer}']:.3f}]" for title, run, layer in shown]
        figure, axes = panels(titles, size=size, columns=columns)
        for panel, (_, run, layer) in zip(axes, shown, strict=True):
            self.draw_layer(panel, self.read(run["folder"])[layer])
        figure.supxlabel(f"in brackets: {self.fraction}", fontsize=8, color=GREY)
        return figure


def _first_pair(runs: pd.DataFrame) -> pd.DataFrame:
    """A run with PANs off and the first with PANs on that differs from it in nothing else; if none, the first runs."""
    settings, is_off = key(runs, "pan"), runs["pans"] == "off"
    paired_with = settings[~is_off & settings.isin(settings[is_off])]
    if paired_with.empty:
        return runs[:2]
    return pd.concat([runs[is_off & (settings == paired_with.iloc[0])][-1:], runs.loc[paired_with.index[:1]]])


def draw_dots(axes: Axes, order: np.ndarray) -> None:
    """order[row] is the column of the dot in that row; dots on the diagonal are blue."""
    neurons = np.arange(len(order))
    colours = np.where(order == neurons, BLUE, ORANGE)
    size = max(0.4, min(12.0, 500 / len(order)))
    axes.scatter(order, neurons, s=size, c=colours, linewidths=0, rasterized=len(order) > 300)
    axes.set(xlim=(-1, len(order)), ylim=(len(order), -1), aspect="equal")
