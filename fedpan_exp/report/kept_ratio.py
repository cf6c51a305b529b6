"""How many neurons stay at their place: against P_sf, against N_sf, and one permutation matrix."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedpan_exp.report.style import BLUE, ORANGE, save, tidy
from fedpan_exp.system.atomic_io import read_json, read_lines


def draw(folder: Path) -> Path | None:
    """metrics.jsonl and order.json -> kept_ratio.png"""
    matrix = read_json(folder / "order.json")
    if not matrix or not (folder / "metrics.jsonl").exists():
        return None
    records = read_lines(folder / "metrics.jsonl")
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    once, visit, dots = figure.subplots(1, 3)
    _curve(once, [record for record in records if "N_sf" not in record], "P_sf", BLUE)
    once.set(xlabel=r"$P_{sf}$", ylabel=r"$R_{kept}$", title="one shuffle")
    _curve(visit, [record for record in records if "N_sf" in record], "N_sf", ORANGE)
    visit.set(xlabel=r"$N_{sf}$", ylabel=r"$R_{kept}$", title=rf"a visit, $P_{{sf}}$={matrix['P_sf']:g} a shuffle")
    order = matrix["order"]
    dots.plot(order, range(len(order)), ".", color=BLUE, markersize=1.5)
    kept = sum(j == i for j, i in enumerate(order)) / len(order)
    dots.set(xlabel="neuron", ylabel="its new place", title=rf"$P_{{sf}}$={matrix['P_sf']:g}: {kept:.1%} kept")
    dots.set(xlim=(-0.5, len(order) - 0.5), ylim=(len(order) - 0.5, -0.5), aspect="equal")
    return save(figure, folder, "kept_ratio")


def _curve(axes: Axes, records: list[dict], variable: str, colour: str) -> None:
    """The mean, and within the band single draws as far as they usually stray."""
    at, kept = ([record[name] for record in records] for name in (variable, "kept"))
    low = [max(0.0, record["kept"] - record["deviation"]) for record in records]
    high = [min(1.0, record["kept"] + record["deviation"]) for record in records]
    axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(at, kept, color=colour, marker="o", markersize=3.5)
    axes.set_ylim(0, 1.03)
    tidy(axes)
