"""The class each neuron prefers: one vertical line per neuron, global above local model, as in the paper."""

from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from safetensors.numpy import load_file

from fedpan_exp.report.style import GREY, save
from fedpan_exp.system.atomic_io import read_json


def draw(folder: Path) -> Path | None:
    """preference.safetensors and summary.json -> preference.png; None for a run without preferences."""
    path, summary = folder / "preference.safetensors", read_json(folder / "summary.json")
    vectors = load_file(path) if path.exists() else {}
    layers = [layer for layer in _layers(summary) if f"global/{layer}" in vectors]
    if not layers:
        return None
    classes = vectors[f"global/{layers[0]}"].shape[1]
    figure = Figure(figsize=(9, 1.4 * len(layers) + 0.8), layout="constrained")
    grid = figure.subplots(len(layers), 1, squeeze=False)[:, 0]
    for axes, layer in zip(grid, layers, strict=True):
        strips = draw_strips(axes, vectors[f"global/{layer}"], vectors[f"local/{layer}"])
        axes.tick_params(axis="x", labelsize=7)
        axes.set_title(f"{layer} [{summary[f'summary/preference/{layer}']:.3f}]", fontsize=10)
    grid[-1].set_xlabel("neuron", fontsize=8)
    ticks = range(classes) if classes <= 20 else range(0, classes, 10)
    bar = figure.colorbar(strips, ax=list(grid), ticks=list(ticks), aspect=30, pad=0.01)
    bar.set_label("preferred class (white: inactive)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    figure.supxlabel("in brackets: the fraction of neurons with the same class", fontsize=8, color=GREY)
    return save(figure, folder, "preference")


def draw_strips(axes: Axes, *models: np.ndarray) -> AxesImage:
    """`models`: preference vectors [neurons, classes] of the global and of the local model."""
    classes = models[0].shape[1]
    colours = colormaps["tab10"].resampled(10) if classes <= 10 else colormaps["turbo"].resampled(classes)
    palette = ListedColormap([colours(c) for c in range(classes)])
    norm = BoundaryNorm(np.arange(classes + 1) - 0.5, classes)
    preferred = np.ma.stack([_preferred(vectors) for vectors in models])
    strips = axes.imshow(preferred, aspect="auto", interpolation="nearest", cmap=palette, norm=norm)
    axes.axhline(0.5, color="white", linewidth=3)
    axes.set_yticks([0, 1], ["global", "local"], fontsize=8)
    return strips


def _preferred(vectors: np.ndarray) -> np.ma.MaskedArray:
    """The preferred class of each neuron; inactive neurons prefer none and are masked."""
    return np.ma.masked_array(vectors.argmax(1), mask=~vectors.any(1))


def _layers(summary: dict[str, float]) -> list[str]:
    """The layers in the order in which the study was given them."""
    return [name.removeprefix("summary/preference/") for name in summary if name.startswith("summary/preference/")]
