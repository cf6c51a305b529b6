"""The labels of each client: one dot per client and label, its area the number of samples."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from fedpan_exp.report.figure import FigureResult, NoData, panels
from fedpan_exp.report.style import BLUE

SHOWN = 100  # clients; more would not be legible


def draw_partition(runs: pd.DataFrame) -> FigureResult:
    (folder,) = runs["folder"]
    if not (folder / "partition.csv").exists():
        raise NoData("the run has no partition")
    counts = pd.read_csv(folder / "partition.csv").filter(like="label_").to_numpy()  # [clients, labels]
    shown, labels = counts[:SHOWN], counts.shape[1]
    rest = f" (the first {SHOWN} of {len(counts)})" if len(counts) > SHOWN else ""
    size = max(6, 0.11 * len(shown) + 2), max(3.5, 0.16 * labels + 3.2) / 2
    layout: dict[str, Any] = {"columns": 1, "height_ratios": [3, 1], "sharex": True}
    figure, (dots, sizes) = panels([f"largest dot: {shown.max():,} samples", ""], f"client{rest}", "", size, **layout)
    client, label = np.nonzero(shown)
    area = 90 * shown[client, label] / shown.max()
    dots.scatter(client, label, s=area, c=label, cmap="tab10" if labels <= 10 else "turbo")
    dots.set(ylabel="label", ylim=(-0.8, labels - 0.2), yticks=range(0, labels, 1 if labels <= 20 else 10))
    sizes.bar(range(len(shown)), shown.sum(1), color=BLUE, width=0.8)
    sizes.set(ylabel="samples", xlim=(-1, len(shown)))
    sizes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return FigureResult(figure)


RUN_PLOTS = {"partition": draw_partition}
