"""Accuracy against rounds: of one run, of PANs off and on by dataset and algorithm, of several variants."""

from collections.abc import Iterable
from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fedpan_exp.report.figure_result import FigureResult, grid, legend_below, thin, values_of
from fedpan_exp.report.frame import records, series
from fedpan_exp.report.statistics import best_pan, measured, seed_stats
from fedpan_exp.report.style import BLUE, GREY, OFF, ON, ORANGE, SERIES, save
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import mean_std, table
from fedpan_exp.studies.federate.lines import OFF_ON_COLUMNS, RULE, gain_findings, off_on_cells, trained_runs
from fedpan_exp.studies.shared.figures import Findings, Rows, titled_panels
from fedpan_exp.system.atomic_io import read_json


def draw_run(folder: Path) -> Path | None:
    """metrics.jsonl and status.json -> curves.png; None for a run without training losses."""
    if "train/loss" not in records(folder):
        return None
    # Centralized training has no rounds: the federated settings are irrelevant to it.
    is_federated = "fl_scene" not in read_json(folder / "status.json").get("irrelevant", ())
    figure, axes = grid(1, 2, 4.5, 3.6)
    left, right = axes.flat
    model, loss = ("global model", "training, as the algorithm has it") if is_federated else ("test", "training")
    draw_mean(left, [folder], BLUE, model)
    draw_mean(left, [folder], GREY, "local, before", ":", "local/pre_acc")
    draw_mean(left, [folder], GREY, "local, after", "--", "local/post_acc")
    rounds, unmatched = series(folder, "fedma/mean_acc")
    if len(rounds):
        left.plot(rounds, 100 * unmatched, "o", color=ORANGE, markersize=4, label="mean of unmatched local models")
    draw_mean(right, [folder], ORANGE, loss, metric="train/loss", scale=1)
    draw_mean(right, [folder], BLUE, "test, as cross entropy", metric="global/test_loss", scale=1)
    accuracy = 100 * series(folder, "global/test_acc")[1]
    if len(accuracy):
        left.set_title(f"test accuracy: best {accuracy.max():.2f}%, last {accuracy[-1]:.2f}%", fontsize=10)
    for panel, ylabel in ((left, "accuracy (%)"), (right, "loss")):
        panel.set(xlabel="round" if is_federated else "epoch", ylabel=ylabel)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        if panel.lines:
            panel.legend(frameon=False, fontsize=8)
    return save(figure, folder, "curves")


def draw_mean(
    axes: Axes, folders: Iterable[Path], colour: str, label: str, line: str = "-",
    metric: str = "global/test_acc", scale: float = 100,
) -> None:  # fmt: skip
    """The mean at the rounds that all runs measured, with a band of one standard deviation for several runs."""
    curves = [pd.Series(y, x) for x, y in (thin(*series(folder, metric)) for folder in folders) if len(x)]
    if not curves:
        return
    heights = scale * pd.concat(curves, axis=1, join="inner").sort_index()
    mean = heights.mean(axis=1)
    marker = "o" if len(mean) < 3 else None  # a line of one point would be invisible
    axes.plot(mean, color=colour, label=label, linestyle=line, linewidth=1.5, marker=marker)
    if len(curves) > 1:
        spread = heights.std(axis=1)
        axes.fill_between(mean.index, mean - spread, mean + spread, color=colour, alpha=0.18, linewidth=0)


def off_on(sweep: Sweep) -> FigureResult:
    """Rows are datasets, columns are algorithms, as in the paper."""
    runs = trained_runs(sweep.runs)
    datasets, algorithms = values_of(runs, "dataset"), values_of(runs, "algorithm")
    figure, axes = grid(len(datasets), len(algorithms), 2.2, 1.9)
    rows: Rows = []
    gains: dict[str, tuple[float, ...]] = {}
    for (i, j), panel in np.ndenumerate(axes):
        dataset, algorithm = datasets[i], algorithms[j]
        point = best_pan(runs[(runs["dataset"] == dataset) & (runs["algorithm"] == algorithm)])
        draw_mean(panel, point.baselines["folder"], OFF, "PANs off", "--")
        if point.pan != "off":
            draw_mean(panel, point.runs["folder"], ON, "PANs on")
        panel.set_title(f"{dataset}, {algorithm}", fontsize=9)
        rows.append([dataset, algorithm, *off_on_cells(point)])
        if point.gain:
            gains[f"{dataset} {algorithm}"] = point.gain.differences
    for panel in axes[-1]:
        panel.set_xlabel("round")
    for panel in axes[:, 0]:
        panel.set_ylabel("accuracy (%)")
    legend_below(figure, axes[0, 0])
    better = sum(np.mean(differences) > 0 for differences in gains.values())
    findings = gain_findings(gains) | {"better": f"better in {better} of {len(gains)} cells" if gains else "–"}
    footnotes = [RULE, "bands: one standard deviation over seeds"]
    return FigureResult(figure, table(["dataset", "algorithm", *OFF_ON_COLUMNS], rows), findings, footnotes)


def norm_variants(sweep: Sweep) -> FigureResult:
    """One panel per dataset, one curve per kind of norm."""
    runs = trained_runs(sweep.runs)
    datasets = values_of(runs, "dataset")
    figure, axes = titled_panels(datasets, 4.6, 3.4)
    rows = []
    for panel, dataset in zip(axes, datasets, strict=True):
        group = runs[runs["dataset"] == dataset]
        by_variant = group.groupby(group.apply(norm_variant, axis=1))
        for colour, (variant, same) in zip(cycle(SERIES), by_variant, strict=False):
            draw_mean(panel, measured(same)["folder"], colour, str(variant))
            rows.append([dataset, same["model"].iloc[0], variant, mean_std(seed_stats(same))])
        panel.set(xlabel="round", ylabel="accuracy (%)")
    legend_below(figure, axes[0])
    scored = {f"{row[0]} {row[2]}": row[3].mean for row in rows if row[3].mean is not None}
    best = max(scored, key=scored.__getitem__, default="")
    findings: Findings = {"best": f"{best} ({scored[best]:.2f}%)"} if best else {}
    return FigureResult(figure, table(["dataset", "model", "variant", "last five (%)"], rows), findings)


def norm_variant(run: pd.Series) -> str:
    """A label such as: BN-Y, BN-N, GN1, GN1+PAN∘ 0.1"""
    averaged = "BN-N" if run.get("fl_scene.bn_statistics") == "keep" else "BN-Y"
    norm = str(run.get("model.norm", "none"))
    label = {"none": "no norm", "bn": averaged}.get(norm, norm.upper())
    return label if run["pans"] == "off" else f"{label}+{run['pan']}"
