"""Two networks and the way between them: accuracy against mu, averaged as they are and aligned."""

from pathlib import Path

from matplotlib.figure import Figure

from fedpan_exp.report.curves import BLUE, GREY
from fedpan_exp.system.atomic_io import atomic_write, read_lines


def draw(folder: Path) -> Path | None:
    """metrics.jsonl -> fusion.png; None where there is nothing to draw."""
    path = folder / "metrics.jsonl"
    records = sorted(read_lines(path) if path.exists() else [], key=lambda record: record["mu"])
    if not records:
        return None
    figure = Figure(figsize=(5, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, label, colour in (("avg_acc", "Avg", GREY), ("ot_acc", "OT+Avg", BLUE)):
        values = [100 * record[name] for record in records]
        axes.plot([record["mu"] for record in records], values, color=colour, label=label, marker="o")
    axes.set(xlabel=r"$\mu$: from network A (0) to network B (1)", ylabel="test accuracy (%)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(folder.name, fontsize=9, color=GREY)
    picture = folder / "fusion.png"
    atomic_write(picture, lambda temporary: figure.savefig(temporary, dpi=150))
    return picture
