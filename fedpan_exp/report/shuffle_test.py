"""What shuffling costs a trained network: its accuracy, and how far its outputs move, against P_sf."""

from pathlib import Path

from matplotlib.figure import Figure

from fedpan_exp.report.curves import BLUE, GREY, ORANGE
from fedpan_exp.system.atomic_io import atomic_write, read_lines


def draw(folder: Path) -> Path | None:
    """metrics.jsonl -> shuffle_test.png; None where there is nothing to draw."""
    path = folder / "metrics.jsonl"
    records = sorted(read_lines(path) if path.exists() else [], key=lambda record: record["P_sf"])
    if not records:
        return None
    P_sf, error = ([record[name] for record in records] for name in ("P_sf", "error"))
    accuracy, deviation = ([100 * record[name] for record in records] for name in ("test_acc", "deviation"))
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.errorbar(P_sf, accuracy, deviation, color=BLUE, marker="o", capsize=2)
    left.set(ylabel="test accuracy (%)", ylim=(0, 101))
    right.plot(P_sf, error, color=ORANGE, marker="o")
    right.set(ylabel="shuffle error", ylim=(0, max(max(error) * 1.08, 1e-6)))
    for axes in (left, right):
        axes.set_xlabel("$P_{sf}$")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(folder.name, fontsize=9, color=GREY)
    picture = folder / "shuffle_test.png"
    atomic_write(picture, lambda temporary: figure.savefig(temporary, dpi=150))
    return picture
