"""How many neurons keep their position: against P_sf, against N_sf, and one permutation matrix."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedpan_exp.report.style import BLUE, ORANGE, save, tidy
from fedpan_exp.system.atomic_io import read_json, read_lines


def draw(folder: Path) -> Path | None:
    """metrics.jsonl and order.json -> kept_ratio.png; None for a run without order.json."""
    permutation = read_json(folder / "order.json")
    if not permutation or not (folder / "metrics.jsonl").exists():
        return None
    records = read_lines(folder / "metrics.jsonl")
    P_sf, order = permutation["P_sf"], permutation["order"]
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    once, local, dots = figure.subplots(1, 3)
    _curve(once, [record for record in records if "N_sf" not in record], "P_sf", BLUE)
    once.set(xlabel=r"$P_{sf}$", ylabel=r"$R_{kept}$", title="one shuffle")
    _curve(local, [record for record in records if "N_sf" in record], "N_sf", ORANGE)
    title = rf"one local training, $P_{{sf}}$={P_sf:g} per shuffle"
    local.set(xlabel=r"$N_{sf}$", ylabel=r"$R_{kept}$", title=title)
    dots.plot(order, range(len(order)), ".", color=BLUE, markersize=1.5)
    ratio = sum(j == i for j, i in enumerate(order)) / len(order)
    dots.set(xlabel="neuron", ylabel="its new position", title=rf"$P_{{sf}}$={P_sf:g}: {ratio:.1%} kept")
    dots.set(xlim=(-0.5, len(order) - 0.5), ylim=(len(order) - 0.5, -0.5), aspect="equal")
    return save(figure, folder, "kept_ratio")


def _curve(axes: Axes, records: list[dict], variable: str, colour: str) -> None:
    """The mean ratio, with a band of one standard deviation of single draws."""
    x, ratios = ([record[name] for record in records] for name in (variable, "kept"))
    low = [max(0.0, record["kept"] - record["deviation"]) for record in records]
    high = [min(1.0, record["kept"] + record["deviation"]) for record in records]
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(x, ratios, color=colour, marker="o", markersize=3.5)
    axes.set_ylim(0, 1.03)
    tidy(axes)
