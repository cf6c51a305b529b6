"""The optimal assignment of local to global neurons: one dot per pair, as in the paper."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedpan_exp.report.style import BLUE, GREY, ORANGE, save
from fedpan_exp.system.atomic_io import read_json

COLUMNS = 4


def draw(folder: Path) -> Path | None:
    """matching.json and summary.json -> matching.png; None for a run without matchings."""
    summary = read_json(folder / "summary.json")
    layers = {layer: np.array(order) for layer, order in read_json(folder / "matching.json").items()}
    layers = {layer: order for layer, order in layers.items() if f"summary/matching/{layer}" in summary}
    if not layers:
        return None
    columns = min(COLUMNS, len(layers))
    rows = -(-len(layers) // columns)
    figure = Figure(figsize=(3.2 * columns + 0.6, 3.3 * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes in grid[len(layers) :]:
        axes.set_axis_off()
    for axes, (layer, order) in zip(grid, layers.items(), strict=False):
        draw_dots(axes, order)
        axes.set_title(f"{layer} [{summary[f'summary/matching/{layer}']:.3f}]", fontsize=10)
        axes.set_xlabel("neuron of the local model", fontsize=8)
        axes.set_ylabel("neuron of the global model", fontsize=8)
        axes.tick_params(labelsize=7)
    figure.supxlabel("in brackets: the fraction on the diagonal", fontsize=8, color=GREY)
    return save(figure, folder, "matching")


def draw_dots(axes: Axes, order: np.ndarray) -> None:
    """order[row] is the column of the dot in that row; dots on the diagonal are blue."""
    neurons = np.arange(len(order))
    on_diagonal = order == neurons
    size = max(0.4, min(12.0, 500 / len(order)))
    for mask, colour in ((~on_diagonal, ORANGE), (on_diagonal, BLUE)):
        axes.scatter(order[mask], neurons[mask], s=size, color=colour, linewidths=0, rasterized=len(order) > 300)
    axes.set(xlim=(-1, len(order)), ylim=(len(order), -1), aspect="equal")
