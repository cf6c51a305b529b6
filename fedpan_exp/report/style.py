"""Colours and axes shared by all pictures."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedpan_exp.system.atomic_io import atomic_write

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"  # safe for colour-blind readers, as all colours below
GREEN, PINK, SKY, AMBER, BLACK = "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"
SERIES = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY, BLACK, GREY)
MARKERS = "osD^vPX*"
OFF, ON = BLUE, ORANGE  # PANs
SHADES = "viridis"  # colour map of an ordered variable
SIGNED = "PuOr"  # colour map of values around a neutral one


def tidy(axes: Axes) -> None:
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, folder: Path, name: str) -> Path:
    figure.suptitle(folder.name, fontsize=9, color=GREY)
    path = folder / f"{name}.png"
    atomic_write(path, lambda temporary: figure.savefig(temporary, dpi=150))
    return path
