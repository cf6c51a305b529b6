"""The class each neuron prefers: one vertical line per neuron, global above local model, as in the paper."""

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.image import AxesImage
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.style import GREY, save
from fedpan_exp.studies.shared.figures import compare_neurons, scene, titled_panels
from fedpan_exp.system.atomic_io import read_json

Models = tuple[np.ndarray, np.ndarray]  # preference vectors [neurons, classes] of the global and the local model


def read(folder: Path) -> dict[str, Models]:
    try:
        tensors = load_file(folder / "preference.safetensors")
    except (OSError, SafetensorError):
        return {}
    layers = [name.removeprefix("global/") for name in tensors if name.startswith("global/")]
    return {
        name: (tensors[f"global/{name}"], tensors[f"local/{name}"]) for name in layers if f"local/{name}" in tensors
    }


def draw_layer(axes: Axes, models: Models) -> AxesImage:
    """Inactive neurons prefer no class and are white."""
    classes = models[0].shape[1]
    colours = colormaps["tab10"].resampled(10) if classes <= 10 else colormaps["turbo"].resampled(classes)
    palette = ListedColormap([colours(c) for c in range(classes)])
    norm = BoundaryNorm(np.arange(classes + 1) - 0.5, classes)
    preferred = np.ma.stack([np.ma.masked_array(each.argmax(1), mask=~each.any(1)) for each in models])
    strips = axes.imshow(preferred, aspect="auto", interpolation="nearest", cmap=palette, norm=norm)
    axes.axhline(0.5, color="white", linewidth=3)
    axes.set_yticks([0, 1], ["global", "local"], fontsize=8)
    axes.set_xlabel("neuron")
    axes.grid(visible=False)
    return strips


def draw_run(folder: Path) -> Path | None:
    """preference.safetensors and summary.json -> preference.png; None for a run without preferences."""
    layers, summary = read(folder), read_json(folder / "summary.json")
    measured = [name.removeprefix("summary/preference/") for name in summary if name.startswith("summary/preference/")]
    shown = [layer for layer in measured if layer in layers]  # in the order in which the study was given them
    if not shown:
        return None
    titles = [f"{layer} [{summary[f'summary/preference/{layer}']:.3f}]" for layer in shown]
    figure, axes = titled_panels(titles, 9.0, 1.6, columns=1)
    strips = [draw_layer(panel, layers[layer]) for panel, layer in zip(axes, shown, strict=True)]
    classes = layers[shown[0]][0].shape[1]
    bar = figure.colorbar(strips[0], ax=axes, ticks=range(0, classes, 1 if classes <= 20 else 10), aspect=30, pad=0.01)
    bar.set_label("preferred class (white: inactive)", fontsize=8)
    figure.supxlabel("in brackets: the fraction of neurons with the same class", fontsize=8, color=GREY)
    return save(figure, folder, "preference")


def paper_figure(name: str, dataset: str, model: str, layer: str) -> PaperFigure:
    statement = "With PANs more neurons prefer the same class in the global and in a local model."
    draw = partial(compare_neurons, study="preference", layer=layer, read=read, draw=draw_layer, size=(4.4, 1.9))
    settings = {**scene(dataset, K=10, alpha=1.0), "model": (model,)}
    claims = (
        Claim("neurons of the same class, PANs off", "fewer", "off"),
        Claim("neurons of the same class, PANs on", "more", "on"),
        Claim("on - off (points)", "higher", "gain"),
    )
    return PaperFigure(name, f"Preferred classes, {model} {layer}", statement, draw, settings, claims, order=7)


RUN_PLOTS = (draw_run,)
PAPER_FIGURES = (
    paper_figure("prefer", "cifar10", "vgg9", "conv6"),
    paper_figure("prefer_vgg_conv5", "cifar10", "vgg9", "conv5"),
    paper_figure("prefer_vgg_conv4", "cifar10", "vgg9", "conv4"),
    paper_figure("prefer_mlp_fc4", "mnist", "mlp", "head"),
    paper_figure("prefer_mlp_fc3", "mnist", "mlp", "fc3"),
)
