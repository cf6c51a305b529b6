"""The optimal assignment of local to global neurons: one dot per pair, as in the paper."""

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.style import GREY, save
from fedpan_exp.studies.shared.figures import compare_neurons, draw_dots, scene, titled_panels
from fedpan_exp.system.atomic_io import read_json


def read(folder: Path) -> dict[str, np.ndarray]:
    """Layer -> the local neuron matched to each global one."""
    layers = read_json(folder / "matching.json")
    return {layer: np.array(order) for layer, order in layers.items() if isinstance(order, list) and order}


def draw_layer(axes: Axes, order: np.ndarray) -> None:
    draw_dots(axes, order)
    axes.set(xlabel="local neuron", ylabel="global neuron")


def draw_run(folder: Path) -> Path | None:
    """matching.json and summary.json -> matching.png; None for a run without matchings."""
    summary = read_json(folder / "summary.json")
    layers = {layer: order for layer, order in read(folder).items() if f"summary/matching/{layer}" in summary}
    if not layers:
        return None
    titles = [f"{layer} [{summary[f'summary/matching/{layer}']:.3f}]" for layer in layers]
    figure, axes = titled_panels(titles, 3.2, 3.3, columns=4)
    for panel, order in zip(axes, layers.values(), strict=True):
        draw_layer(panel, order)
    figure.supxlabel("in brackets: the fraction on the diagonal", fontsize=8, color=GREY)
    return save(figure, folder, "matching")


def paper_figure(name: str, dataset: str, model: str, layer: str) -> PaperFigure:
    statement = "With PANs the diagonal is denser: neurons at the same position have the same function."
    draw = partial(compare_neurons, study="matching", layer=layer, read=read, draw=draw_layer, size=(3.2, 3.2))
    settings = {**scene(dataset, K=10, R=1.0, H=20, alpha=1.0), "model": (model,), "study.E": (20,)}
    claims = (
        Claim("fraction on the diagonal, PANs off", "sparser", "off"),
        Claim("fraction on the diagonal, PANs on", "denser", "on"),
        Claim("on - off (points)", "higher", "gain"),
    )
    return PaperFigure(name, f"Optimal assignment, {model} {layer}", statement, draw, settings, claims, order=6)


RUN_PLOTS = (draw_run,)
PAPER_FIGURES = (
    paper_figure("assign", "cifar10", "vgg9", "conv5"),
    paper_figure("assign_vgg_conv6", "cifar10", "vgg9", "conv6"),
    paper_figure("assign_mlp_fc3", "mnist", "mlp", "fc3"),
)
