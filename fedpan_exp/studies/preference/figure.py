"""The class each neuron prefers: one vertical line per neuron, global above local model, as in the paper."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedpan_exp.report.figure import FigureResult
from fedpan_exp.studies.shared.neurons import NeuronFigure

Models = tuple[np.ndarray, np.ndarray]  # preference vectors [neurons, classes] of the global and the local model


def read(folder: Path) -> dict[str, Models]:
    try:
        tensors = load_file(folder / "preference.safetensors")
    except (OSError, SafetensorError):
        return {}
    layers = [name.removeprefix("global/") for name in tensors if name.startswith("global/")]
    return {layer: (tensors[f"global/{layer}"], tensors[f"local/{layer}"]) for layer in layers}


def draw_layer(axes: Axes, models: Models) -> None:
    """Inactive neurons prefer no class and are white."""
    classes = models[0].shape[1]
    colours = colormaps["tab10"].resampled(10) if classes <= 10 else colormaps["turbo"].resampled(classes)
    palette = ListedColormap([colours(c) for c in range(classes)])
    norm = BoundaryNorm(np.arange(classes + 1) - 0.5, classes)
    preferred = np.ma.stack([np.ma.masked_array(each.argmax(1), mask=~each.any(1)) for each in models])
    axes.imshow(preferred, aspect="auto", interpolation="nearest", cmap=palette, norm=norm)
    axes.axhline(0.5, color="white", linewidth=3)
    axes.set_yticks([0, 1], ["global", "local"], fontsize=8)
    axes.set_xlabel("neuron")
    axes.grid(visible=False)


FRACTION = "the fraction of neurons with the same class"
LAYERS = NeuronFigure("preference", read, draw_layer, FRACTION, size=(4.4, 1.9), run_size=(9.0, 1.6), run_columns=1)
draw = LAYERS.draw


def draw_run(runs: pd.DataFrame) -> FigureResult:
    """All layers of one run, with the colours of the classes."""
    result = LAYERS.draw_run(runs)
    figure, strips = result.figure, result.figure.axes[0].images[0]
    classes = strips.get_cmap().N
    ticks = range(0, classes, 1 if classes <= 20 else 10)
    bar = figure.colorbar(strips, ax=figure.axes, ticks=ticks, aspect=30, pad=0.01)
    bar.set_label("preferred class (white: inactive)", fontsize=8)
    return result


RUN_PLOTS = {"preference": draw_run}
