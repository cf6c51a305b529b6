"""Accuracy against rounds: of one run, of PANs off and on by dataset and algorithm, of several variants."""

from collections.abc import Iterable
from itertools import cycle, product
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fedpan_exp.report.figure import FigureResult, NoData, legend, legend_below, panels, values_of
from fedpan_exp.report.frame import curves, records
from fedpan_exp.report.statistics import best_pan, measured, seed_stats
from fedpan_exp.report.style import BLUE, GREY, OFF, ON, ORANGE, SERIES
from fedpan_exp.studies.federate.lines import RULE, gain_findings, trained_runs
from fedpan_exp.system.atomic_io import read_json

POINTS = 250  # of a curve; a figure resolves no more


def draw_run(runs: pd.DataFrame) -> FigureResult:
    """Accuracy and loss of one run."""
    (folder,) = runs["folder"]
    if "train/loss" not in records(folder):
        raise NoData("the run has no training losses")
    # Centralized training has no rounds: the federated settings are irrelevant to it.
    is_federated = "fl_scene" not in read_json(folder / "status.json").get("irrelevant", ())
    model, loss = ("global model", "training, as the algorithm has it") if is_federated else ("test", "training")
    figure, (left, right) = panels(["", ""], "round" if is_federated else "epoch", size=(4.5, 3.6))
    draw_mean(left, [folder], BLUE, model)
    draw_mean(left, [folder], GREY, "local, before", ":", "local/pre_acc")
    draw_mean(left, [folder], GREY, "local, after", "--", "local/post_acc")
    draw_mean(right, [folder], ORANGE, loss, metric="train/loss")
    draw_mean(right, [folder], BLUE, "test, as cross entropy", metric="global/test_loss")
    unmatched = 100 * curves([folder], "fedma/mean_acc")
    if len(unmatched):
        left.plot(unmatched, "o", color=ORANGE, markersize=4, label="mean of unmatched local models")
    accuracy = 100 * curves([folder], "global/test_acc").squeeze(axis=1)
    if len(accuracy):
        left.set_title(f"test accuracy: best {accuracy.max():.2f}%, last {accuracy.iloc[-1]:.2f}%", fontsize=10)
    fork = str(runs.iloc[0].get("fork") or "")
    for panel, ylabel in ((left, "accuracy (%)"), (right, "loss")):
        panel.set_ylabel(ylabel)
        if fork:
            panel.axvline(
                int(fork.rpartition("@")[2]), color=GREY, linewidth=1, label="fork: rounds of its parent before"
            )
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        legend(panel)
    return FigureResult(figure)


def draw_mean(
    axes: Axes, folders: Iterable[Path], colour: str, label: str, line: str = "-", metric: str = "global/test_acc"
) -> None:
    """The mean at the rounds that all runs measured, with a band of one standard deviation for several runs."""
    heights = curves(folders, metric) * (100 if metric.endswith("acc") else 1)
    heights = heights.iloc[np.unique(np.linspace(0, len(heights) - 1, POINTS).astype(int))] if len(heights) else heights
    mean, spread = heights.mean(axis=1), heights.std(axis=1)  # there is no spread of one run
    if len(mean):
        marker = "o" if len(mean) < 3 else None  # a line of one point would be invisible
        axes.plot(mean, color=colour, label=label, linestyle=line, linewidth=1.5, marker=marker)
        axes.fill_between(mean.index, mean - spread, mean + spread, color=colour, alpha=0.18, linewidth=0)


def off_on_curves(runs: pd.DataFrame) -> FigureResult:
    """Rows are datasets, columns are algorithms, as in the paper."""
    runs = trained_runs(runs)
    algorithms = values_of(runs, "algorithm")
    cells = list(product(values_of(runs, "dataset"), algorithms))
    figure, axes = panels(map(", ".join, cells), "round", "accuracy (%)", (2.2, 1.9), len(algorithms))
    rows, gains = [], {}
    for panel, (dataset, algorithm) in zip(axes, cells, strict=True):
        best = best_pan(runs[(runs["dataset"] == dataset) & (runs["algorithm"] == algorithm)])
        draw_mean(panel, best.runs["folder"][best.runs["pan"] == "off"], OFF, "PANs off", "--")
        if best.pan != "off":
            draw_mean(panel, best.runs["folder"][best.runs["pan"] == best.pan], ON, "PANs on")
        rows.append({"dataset": dataset, "algorithm": algorithm, **best.cells()})
        if len(best.gains):
            gains[f"{dataset} {algorithm}"] = [best]
    legend_below(figure, axes[0])
    better = sum(best.gains.mean() > best.by_choosing for (best,) in gains.values())
    findings = gain_findings(gains) | {"better": f"better in {better} of {len(gains)} cells" if gains else ""}
    return FigureResult(figure, pd.DataFrame(rows), findings, [RULE, "bands: one standard deviation over seeds"])


def norm_variants(runs: pd.DataFrame) -> FigureResult:
    """One panel per dataset, one curve per kind of norm."""
    runs = trained_runs(runs)
    datasets = values_of(runs, "dataset")
    figure, axes = panels(datasets, "round", "accuracy (%)", (4.6, 3.4))
    rows = []
    for panel, dataset in zip(axes, datasets, strict=True):
        group = runs[runs["dataset"] == dataset]
        by_variant = group.groupby(group.apply(norm_variant, axis=1))
        for colour, (variant, same) in zip(cycle(SERIES), by_variant, strict=False):
            draw_mean(panel, measured(same)["folder"], colour, str(variant))
            row = {"dataset": dataset, "model": same["model"].iloc[0], "variant": variant}
            rows.append(row | {"last five (%)": seed_stats(same)})
    legend_below(figure, axes[0])
    means = pd.Series({f"{row['dataset']} {row['variant']}": row["last five (%)"].mean for row in rows}).dropna()
    best = f"{means.idxmax()} ({means.max():.2f}%)" if len(means) else ""
    return FigureResult(figure, pd.DataFrame(rows), {"best": best})


def norm_variant(run: pd.Series) -> str:
    """A label such as: BN-Y, BN-N, GN1, GN1+PAN∘ 0.1"""
    averaged = "BN-N" if run.get("fl_scene.bn_statistics") == "keep" else "BN-Y"
    norm = str(run.get("model.norm", "none"))
    label = {"none": "no norm", "bn": averaged}.get(norm, norm.upper())
    return label if run["pans"] == "off" else f"{label}+{run['pan']}"
