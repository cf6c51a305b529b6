"""The position encoding of each layer: one row per layer, coloured by value."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fedpan_exp.report.frame import records
from fedpan_exp.report.style import SIGNED, save
from fedpan_exp.system.atomic_io import read_json


def draw_encodings(folder: Path) -> Path | None:
    """encodings.json and metrics.jsonl -> encodings.png; None for a run without encodings."""
    encodings, layers = read_json(folder / "encodings.json"), records(folder)
    if not encodings.get("values") or "layer" not in layers:
        return None
    neutral = encodings["neutral"]
    amplitude = max(np.abs(np.array(values) - neutral).max() for values in encodings["values"].values()) or 1.0
    figure = Figure(figsize=(9, 1.4 + 0.3 * len(layers)), layout="constrained")
    axes = figure.subplots()
    for row, layer in enumerate(layers.to_dict("records")):
        values = np.array([encodings["values"][layer["layer"]]])
        edges = np.linspace(0, 1, values.size + 1)  # layers differ in width, so positions are relative
        bounds = {"vmin": neutral - amplitude, "vmax": neutral + amplitude}
        shades = axes.pcolormesh(edges, [row - 0.42, row + 0.42], values, cmap=SIGNED, **bounds)
        text = f"{layer['distinct']} of {layer['width']}" if layer["on"] else f"off, {layer['width']}"
        axes.text(1.01, row, text, va="center", fontsize=8)
    axes.set(xlabel="position j / J", ylim=(len(layers) - 0.5, -0.5), xlim=(0, 1))
    axes.set_yticks(range(len(layers)), layers["layer"], fontsize=8)
    axes.set_title("distinct values of all", fontsize=8, loc="right")
    axes.spines[:].set_visible(False)
    figure.colorbar(shades, ax=axes, label=r"$e_j$", pad=0.09)
    return save(figure, folder, "encodings")


RUN_PLOTS = (draw_encodings,)
