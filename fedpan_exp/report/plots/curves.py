"""Accuracy against rounds: a grid of datasets and algorithms with PANs off and on, or one curve per variant."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes

from fedpan_exp.report.plots.figure_result import FigureResult, grid, legend_below, thin, values_of
from fedpan_exp.report.plots.lines import RULE, gain_findings, measured, row_of
from fedpan_exp.report.runs import Run, show
from fedpan_exp.report.statistics import best_pan, seed_stats
from fedpan_exp.report.style import OFF, ON, SERIES
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, Table, Value, mean_std


def off_on(sweep: Sweep) -> FigureResult:
    """Rows are datasets, columns are algorithms, as in the paper."""
    runs = measured(sweep.runs)
    datasets, algorithms = values_of(runs, "dataset"), values_of(runs, "algorithm")
    figure, axes = grid(len(datasets), len(algorithms), 2.2, 1.9)
    rows: list[list[Value]] = []
    gains: dict[str, list[float]] = {}
    better = 0
    for i, dataset in enumerate(datasets):
        for j, algorithm in enumerate(algorithms):
            group = [run for run in runs if (run.setting("dataset"), run.setting("algorithm")) == (dataset, algorithm)]
            point, panel = best_pan(group), axes[i, j]
            draw_mean(panel, point.baselines, OFF, "PANs off", "--")
            draw_mean(panel, point.runs if point.pan != "off" else (), ON, "PANs on")
            panel.set_title(f"{dataset}, {algorithm}", fontsize=9)
            rows.append(row_of(str(dataset), str(algorithm), point))
            if point.gain:
                gains[f"{dataset} {algorithm}"] = list(point.gain.differences)
                better += point.gain.mean > 0
    for panel in axes[-1]:
        panel.set_xlabel("round")
    for panel in axes[:, 0]:
        panel.set_ylabel("accuracy (%)")
    legend_below(figure, axes[0, 0])
    table = Table(
        ["dataset", "algorithm", "PANs off (%)", "best PAN", "PANs on (%)", "on - off (points)", "pairs"], rows
    )
    findings = gain_findings(gains) | {"better": f"better in {better} of {len(gains)} cells" if gains else "–"}
    return FigureResult(figure, table, findings, [RULE, "bands: one standard deviation over seeds"])


def variants(sweep: Sweep, name: Callable[[Run], str]) -> FigureResult:
    """One panel per dataset, one curve per variant."""
    runs = measured(sweep.runs)
    datasets = values_of(runs, "dataset")
    figure, axes = grid(1, len(datasets), 4.6, 3.4)
    rows: list[list[Value]] = []
    for panel, dataset in zip(axes.flat, datasets, strict=True):
        by_variant: dict[str, list[Run]] = {}
        for run in runs:
            if run.setting("dataset") == dataset:
                by_variant.setdefault(name(run), []).append(run)
        for colour, (variant, group) in zip([*SERIES] * 9, sorted(by_variant.items()), strict=False):
            draw_mean(panel, [run for run in group if run.complete], colour, variant)
            rows.append([show(dataset), show(group[0].setting("model")), variant, mean_std(seed_stats(group))])
        panel.set_title(f"{dataset}, {values_of(runs, 'model')[0]}" if len(datasets) == 1 else str(dataset), fontsize=9)
        panel.set(xlabel="round", ylabel="accuracy (%)")
    legend_below(figure, axes.flat[0])
    means = {f"{row[0]} {row[2]}": row[3] for row in rows}
    return FigureResult(figure, Table(["dataset", "model", "variant", "last five (%)"], rows), dict(_best(means)))


def norm_variant(run: Run) -> str:
    """A label such as: BN-Y, BN-N, GN1, GN1+PAN∘ 0.1"""
    norm = str(run.setting("model.norm", "none"))
    averaged = "BN-N" if run.setting("fl_scene.bn_statistics") == "keep" else "BN-Y"
    label = {"none": "no norm", "bn": averaged}.get(norm, norm.upper())
    return label if run.is_off else f"{label}+{run.pan}"


def draw_mean(axes: Axes, runs: Sequence[Run], colour: str, label: str, line: str = "-") -> None:
    """The mean over seeds at the rounds tested by all, with a band of one standard deviation for several seeds."""
    curves = [thin(*run.series("global/test_acc")) for run in runs]
    curves = [curve for curve in curves if len(curve[0])]
    if not curves:
        return
    shared = set.intersection(*(set(x.tolist()) for x, _ in curves))
    x = np.array(sorted(shared))
    heights = 100 * np.array([y[np.isin(rounds, x)] for rounds, y in curves])
    marker = "o" if len(x) < 3 else None  # a line of one point would be invisible
    axes.plot(x, heights.mean(0), color=colour, label=label, linestyle=line, linewidth=1.4, marker=marker)
    if len(curves) > 1:
        spread = heights.std(0, ddof=1)
        axes.fill_between(x, heights.mean(0) - spread, heights.mean(0) + spread, color=colour, alpha=0.18, linewidth=0)


def _best(means: dict[str, Value]) -> list[tuple[str, str]]:
    scored = {
        name: value.mean for name, value in means.items() if isinstance(value, MeanStd) and value.mean is not None
    }
    best = max(scored, key=lambda name: scored[name], default=None)
    return [("best", f"{best} ({scored[best]:.2f}%)")] if best else []
