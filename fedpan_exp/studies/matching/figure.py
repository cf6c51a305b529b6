"""The optimal assignment of local to global neurons: one dot per pair, as in the paper."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from fedpan_exp.studies.shared.neurons import NeuronFigure, draw_dots
from fedpan_exp.system.atomic_io import read_json


def read(folder: Path) -> dict[str, np.ndarray]:
    """Layer -> the local neuron matched to each global one."""
    return {layer: np.array(order) for layer, order in read_json(folder / "matching.json").items()}


def draw_layer(axes: Axes, order: np.ndarray) -> None:
    draw_dots(axes, order)
    axes.set(xlabel="local neuron", ylabel="global neuron")


LAYERS = NeuronFigure(
    "matching", read, draw_layer, "the fraction on the diagonal", size=(3.2, 3.2), run_size=(3.2, 3.3), run_columns=4
)
draw, RUN_PLOTS = LAYERS.draw, {"matching": LAYERS.draw_run}
