"""Interpolation between two networks: accuracy against mu, with and without alignment."""

from pathlib import Path

from matplotlib.figure import Figure

from fedpan_exp.report.records import records_with
from fedpan_exp.report.style import BLUE, GREY, save, tidy


def draw(folder: Path) -> Path | None:
    """metrics.jsonl -> fusion.png; None for a run without interpolated networks."""
    records = sorted(records_with(folder, "mu", "avg_acc", "ot_acc"), key=lambda record: record["mu"])
    if not records:
        return None
    figure = Figure(figsize=(5, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, label, colour in (("avg_acc", "Avg", GREY), ("ot_acc", "OT+Avg", BLUE)):
        values = [100 * record[name] for record in records]
        axes.plot([record["mu"] for record in records], values, color=colour, label=label, marker="o")
    axes.set(xlabel=r"$\mu$: from network A (0) to network B (1)", ylabel="test accuracy (%)")
    axes.legend(frameon=False)
    tidy(axes)
    return save(figure, folder, "fusion")
