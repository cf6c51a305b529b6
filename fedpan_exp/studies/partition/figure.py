"""The labels of each client: one dot per client and label, its area the number of samples."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedpan_exp.report.style import BLUE, save, tidy

SHOWN = 100  # clients; more would not be legible


def draw_partition(folder: Path) -> Path | None:
    """partition.csv -> partition.png; None for a run without a partition."""
    if not (folder / "partition.csv").exists():
        return None
    counts = pd.read_csv(folder / "partition.csv").filter(like="label_").to_numpy()  # [clients, labels]
    shown, labels = counts[:SHOWN], counts.shape[1]
    size = max(6, 0.11 * len(shown) + 2), max(3.5, 0.16 * labels + 3.2)
    figure = Figure(figsize=size, layout="constrained")
    dots, sizes = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    client, label = np.nonzero(shown)
    area = 90 * shown[client, label] / shown.max()
    dots.scatter(client, label, s=area, c=label, cmap="tab10" if labels <= 10 else "turbo")
    dots.set(ylabel="label", ylim=(-0.8, labels - 0.2), yticks=range(0, labels, 1 if labels <= 20 else 10))
    dots.set_title(f"largest dot: {shown.max():,} samples", fontsize=9)
    sizes.bar(range(len(shown)), shown.sum(1), color=BLUE, width=0.8)
    rest = f" (the first {SHOWN} of {len(counts)})" if len(counts) > SHOWN else ""
    sizes.set(xlabel=f"client{rest}", ylabel="samples", xlim=(-1, len(shown)))
    sizes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in (dots, sizes):
        tidy(axes)
        axes.set_axisbelow(True)
    return save(figure, folder, "partition")


RUN_PLOTS = (draw_partition,)
