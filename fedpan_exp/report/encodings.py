"""The position encoding of each layer: one row per layer, coloured by value."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fedpan_exp.report.style import SIGNED, save
from fedpan_exp.system.atomic_io import read_json, read_lines


def draw(folder: Path) -> Path | None:
    """encodings.json and metrics.jsonl -> encodings.png; None for a run without encodings.json."""
    encodings = read_json(folder / "encodings.json")
    if not encodings or not encodings["values"]:
        return None
    records = {record["layer"]: record for record in read_lines(folder / "metrics.jsonl")}
    neutral = encodings["neutral"]
    amplitude = max(abs(value - neutral) for values in encodings["values"].values() for value in values) or 1.0
    figure = Figure(figsize=(9, 1.4 + 0.3 * len(records)), layout="constrained")
    axes = figure.subplots()
    for row, (layer, values) in enumerate(encodings["values"].items()):
        edges = np.linspace(0, 1, len(values) + 1)  # layers differ in width, so positions are relative
        cells = np.array([values])
        bounds = {"vmin": neutral - amplitude, "vmax": neutral + amplitude}
        shades = axes.pcolormesh(edges, [row - 0.42, row + 0.42], cells, cmap=SIGNED, **bounds)
        record = records[layer]
        text = f"{record['distinct']} of {record['width']}" if record["on"] else f"off, {record['width']}"
        axes.text(1.01, row, text, va="center", fontsize=8)
    axes.set(xlabel="position j / J", ylim=(len(records) - 0.5, -0.5), xlim=(0, 1))
    axes.set_yticks(range(len(records)), list(encodings["values"]), fontsize=8)
    axes.set_title("distinct values of all", fontsize=8, loc="right")
    axes.spines[:].set_visible(False)
    figure.colorbar(shades, ax=axes, label=r"$e_j$", pad=0.09)
    return save(figure, folder, "encodings")
