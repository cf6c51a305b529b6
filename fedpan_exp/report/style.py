"""The colours of all figures."""

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"  # safe for colour-blind readers, as all colours below
GREEN, PINK, SKY, AMBER, BLACK = "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"
SERIES = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY, BLACK, GREY)
OFF, ON = BLUE, ORANGE  # PANs
