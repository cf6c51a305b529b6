"""Accuracy against shuffles on i.i.d. data, with non-i.i.d. runs as horizontal lines: the paper's sf-fl, bottom."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from fedpan_exp.report.style import GREY, ORANGE
from fedpan_exp.system.atomic_io import atomic_write

STYLES = ("-", "--", ":", "-.")


@dataclass
class Panel:
    title: str
    points: list[tuple[float, float, list[float]]]  # N_sf, fraction of misplaced neurons, accuracy per seed
    levels: list[tuple[str, float]]  # label and accuracy of each horizontal line


def draw(panels: Sequence[Panel], path: Path) -> Path:
    figure = Figure(figsize=(4.6 * len(panels), 4.2), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for N_sf, _, accuracies in panel.points:
            axes.scatter([N_sf] * len(accuracies), [100 * a for a in accuracies], s=14, color=ORANGE, alpha=0.4)
        means = [(N_sf, 100 * sum(each) / len(each)) for N_sf, _, each in panel.points]
        axes.plot(*zip(*means, strict=True), "o-", color=ORANGE, linewidth=1, markersize=5, label="shuffled, i.i.d.")
        for i, (label, accuracy) in enumerate(panel.levels):
            axes.axhline(100 * accuracy, color=GREY, linestyle=STYLES[i % len(STYLES)], linewidth=1.3, label=label)
        axes.set(xlabel="$N_{sf}$, shuffles per client and round", ylabel="test accuracy (%)")
        above = axes.secondary_xaxis("top")
        above.set_xticks(
            [N_sf for N_sf, *_ in panel.points],
            [f"{100 * fraction:.1f}" for _, fraction, _ in panel.points],
            fontsize=7,
            rotation=90,  # the first ones are close together
        )
        above.set_xlabel("misplaced neurons (%)", fontsize=8)
        axes.set_title(panel.title, fontsize=9, color=GREY)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    atomic_write(path, lambda temporary: figure.savefig(temporary, dpi=150))
    return path
