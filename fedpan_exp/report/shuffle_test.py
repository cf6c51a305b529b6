"""What shuffling costs a trained network: its accuracy and its shuffle error against P_sf."""

from pathlib import Path

from matplotlib.figure import Figure

from fedpan_exp.report.records import records_with
from fedpan_exp.report.style import BLUE, ORANGE, save, tidy


def draw(folder: Path) -> Path | None:
    """metrics.jsonl -> shuffle_test.png; None for a run without tests of shuffled networks."""
    columns = ("P_sf", "error", "test_acc", "deviation")
    records = sorted(records_with(folder, *columns), key=lambda record: record["P_sf"])
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
        tidy(axes)
    return save(figure, folder, "shuffle_test")
