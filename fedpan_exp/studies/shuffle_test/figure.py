"""What shuffling costs a trained network: its accuracy and its shuffle error against P_sf."""

from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.figure_result import FigureResult, grid, panels_of
from fedpan_exp.report.statistics import seed_stats
from fedpan_exp.report.style import BLUE, MARKERS, ORANGE, SERIES, save
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, mean_std, table
from fedpan_exp.studies.shared.figures import Findings, complete_runs, draw_points, records_with, titled_panels


def read(folder: Path) -> pd.DataFrame:
    return records_with(folder, "P_sf", "error", "test_acc", "deviation").sort_values("P_sf")


def draw_accuracy(axes: Axes, lines: pd.DataFrame, colour: str, label: str, style: str) -> dict[float, MeanStd]:
    """The mean accuracy over shuffles by P_sf, and its deviation; also returned."""
    cells = {P_sf: MeanStd(100 * mean, 100 * std) for P_sf, _, mean, std in lines.itertuples(index=False)}
    draw_points(axes, cells, colour, label, style)
    axes.set(xlabel="$P_{sf}$", ylabel="test accuracy (%)")
    return cells


def draw_run(folder: Path) -> Path | None:
    """metrics.jsonl -> shuffle_test.png; None for a run without tests of shuffled networks."""
    lines = read(folder)
    if lines.empty:
        return None
    figure, axes = grid(1, 2, 4.5, 3.6)
    left, right = axes.flat
    draw_accuracy(left, lines, BLUE, "", "o-")
    left.set_ylim(0, 101)
    right.plot(lines["P_sf"], lines["error"], "o-", color=ORANGE)
    right.set(xlabel="$P_{sf}$", ylabel="shuffle error", ylim=(0, max(lines["error"].max() * 1.08, 1e-6)))
    return save(figure, folder, "shuffle_test")


def draw(sweep: Sweep) -> FigureResult:
    """First panel: accuracy of the trained networks. Then one per dataset: accuracy after shuffling with P_sf."""
    panels = panels_of(complete_runs(sweep, "shuffle_test"), ("dataset", "model"))
    figure, (first, *rest) = titled_panels(["trained", *panels], 3.4, 3.0)
    rows, change = [], []
    for panel, marker, (title, group) in zip(rest, cycle(MARKERS), panels.items(), strict=False):
        by_pan = dict(iter(group.sort_values(["pans", "pan"], kind="stable").groupby("pan", sort=False)))
        trained = {pan: mean_std(seed_stats(same, "summary/test_acc")) for pan, same in by_pan.items()}
        heights = [np.nan if cell.mean is None else cell.mean for cell in trained.values()]
        first.plot(list(trained), heights, marker + "-", markersize=4, label=title)
        for colour, (pan, same) in zip(cycle(SERIES), by_pan.items(), strict=False):
            shuffled = draw_accuracy(panel, read(same["folder"].iloc[0]), colour, pan, f"{marker}-")
            rows += [[title, pan, trained[pan], P_sf, MeanStd(cell.mean)] for P_sf, cell in shuffled.items()]
            if pan == "off":
                accuracies = [cell.mean or 0 for cell in shuffled.values()]
                change += [abs(accuracy - accuracies[0]) for accuracy in accuracies]
        panel.legend(frameon=False, fontsize=6)
    first.set_ylabel("test accuracy (%)")
    first.tick_params(axis="x", rotation=90, labelsize=6)
    first.legend(frameon=False, fontsize=7)
    findings: Findings = {"change off": MeanStd(max(change), n=len(change))} if change else {}
    columns = ["network", "PAN", "trained (%)", "P_sf", "shuffled (%)"]
    return FigureResult(figure, table(columns, rows), findings, ["curves: the first seed of each PAN"])


RUN_PLOTS = (draw_run,)
PAPER_FIGURES = (
    PaperFigure(
        "sf_test", "Shuffling trained networks", "With A=0 nothing changes; the larger A, the larger the drop.", draw,
        {"dataset": ("mnist", "svhn", "cifar10"), "model": ("mlp", "vgg13", "resnet20")},
        (Claim("largest change of a plain network's accuracy (points)", 0.0, "change off"),), order=3,
    ),
)  # fmt: skip
