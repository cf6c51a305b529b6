"""The position encoding of each layer: one row per layer, coloured by value."""

import numpy as np
import pandas as pd

from fedpan_exp.report.figure import FigureResult, NoData, panels
from fedpan_exp.report.frame import records
from fedpan_exp.system.atomic_io import read_json


def draw_encodings(runs: pd.DataFrame) -> FigureResult:
    (folder,) = runs["folder"]
    encodings, layers = read_json(folder / "encodings.json"), records(folder)
    if not encodings.get("values") or "layer" not in layers:
        raise NoData("the run has no encodings")
    neutral, values = encodings["neutral"], {name: np.array(row) for name, row in encodings["values"].items()}
    amplitude = max(np.abs(row - neutral).max() for row in values.values()) or 1.0
    colours = {"cmap": "PuOr", "vmin": neutral - amplitude, "vmax": neutral + amplitude}
    figure, (axes,) = panels([""], "position j / J", size=(9, 1.4 + 0.3 * len(layers)))
    for row, layer in enumerate(layers.itertuples()):
        edges = np.linspace(0, 1, layer.width + 1)  # layers differ in width, so positions are relative
        shades = axes.pcolormesh(edges, [row - 0.42, row + 0.42], values[layer.layer][None], **colours)
        text = f"{layer.distinct} of {layer.width}" if layer.on else f"off, {layer.width}"
        axes.text(1.01, row, text, va="center", fontsize=8)
    axes.set(ylim=(len(layers) - 0.5, -0.5), xlim=(0, 1))
    axes.set_yticks(range(len(layers)), layers["layer"], fontsize=8)
    axes.set_title("distinct values of all", fontsize=8, loc="right")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    figure.colorbar(shades, ax=axes, label=r"$e_j$", pad=0.09)
    return FigureResult(figure)


RUN_PLOTS = {"encodings": draw_encodings}
