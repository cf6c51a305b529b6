"""What each layer's neurons are told of their position: a row a layer, a colour a value."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fedpan_exp.report.style import SIGNED, save
from fedpan_exp.system.atomic_io import read_json, read_lines


def draw(folder: Path) -> Path | None:
    """encodings.json and metrics.jsonl -> encodings.png"""
    told = read_json(folder / "encodings.json")
    if not told or not told["values"]:
        return None
    records = {record["layer"]: record for record in read_lines(folder / "metrics.jsonl")}
    middle = told["neutral"]
    reach = max(abs(value - middle) for values in told["values"].values() for value in values) or 1.0
    figure = Figure(figsize=(9, 1.4 + 0.3 * len(records)), layout="constrained")
    axes = figure.subplots()
    for row, (layer, values) in enumerate(told["values"].items()):
        edges = np.linspace(0, 1, len(values) + 1)  # widths differ from layer to layer, so positions are shares of them
        cells = np.array([values])
        bounds = {"vmin": middle - reach, "vmax": middle + reach}
        shades = axes.pcolormesh(edges, [row - 0.42, row + 0.42], cells, cmap=SIGNED, **bounds)
        seen = records[layer]
        note = f"{seen['distinct']} of {seen['width']}" if seen["on"] else f"off, {seen['width']}"
        axes.text(1.01, row, note, va="center", fontsize=8)
    axes.set(xlabel="position j / J", ylim=(len(records) - 0.5, -0.5), xlim=(0, 1))
    axes.set_yticks(range(len(records)), list(told["values"]), fontsize=8)
    axes.set_title("distinct values of all", fontsize=8, loc="right")
    axes.spines[:].set_visible(False)
    figure.colorbar(shades, ax=axes, label=r"$e_j$", pad=0.09)
    return save(figure, folder, "encodings")
