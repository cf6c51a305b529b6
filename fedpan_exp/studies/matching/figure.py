"""The optimal assignment of local to global neurons: one dot per pair, as in the paper."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedpan_exp.report.figure import FigureResult
from fedpan_exp.studies.shared.neurons import NeuronFigure, draw_dots
from fedpan_exp.system.atomic_io import read_json


def read(folder: Path) -> dict[str, np.ndarray]:
    """Layer -> the local neuron matched to each global one."""
    return {layer: np.array(order) for layer, order in read_json(folder / "matching.json").items()}


def draw_layer(axes: Axes, order: np.ndarray) -> None:
    draw_dots(axes, order)
    axes.set(xlabel="local neuron", ylabel="global neuron")


LAYERS = NeuronFigure("matching", read, draw_layer, "the fraction on the diagonal")


def draw(runs: pd.DataFrame, layer: str = "") -> FigureResult:
    return LAYERS.draw(runs, layer, (3.2, 3.2))


def draw_run(runs: pd.DataFrame) -> FigureResult:
    return FigureResult(LAYERS.draw_run(runs, (3.2, 3.3), columns=4))


RUN_PLOTS = {"matching": draw_run}
