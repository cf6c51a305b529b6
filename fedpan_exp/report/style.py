"""Colours and manners that all pictures share; told apart by colour-blind readers too (Okabe and Ito's palette)."""

from collections.abc import Iterable

from matplotlib.axes import Axes

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"
GREEN, PINK, SKY, AMBER, BLACK = "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"
SERIES = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY, BLACK, GREY)
OFF, ON = BLUE, ORANGE  # PANs
MARKERS = "osD^vPX*"


def tidy(axes: Iterable[Axes]) -> None:
    for each in axes:
        each.grid(alpha=0.25, linewidth=0.6)
        each.set_axisbelow(True)
        each.spines[["top", "right"]].set_visible(False)
