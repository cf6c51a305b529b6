"""Divergence of the clients with PANs off and on, one bar per layer."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from fedpan_exp.report.plots.figure_result import FigureResult, NoData, grid, legend_below, panels_of
from fedpan_exp.report.runs import Run
from fedpan_exp.report.statistics import SeedStats, seed_stats
from fedpan_exp.report.style import OFF, ON
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import Table, Value, mean_std

MEASURES = {"summary/divergence/": "weight divergence", "summary/gradient_variance/": "gradient variance"}


def divergence(sweep: Sweep) -> FigureResult:
    runs = sweep.of("divergence", "federate")
    measures = {prefix: label for prefix, label in MEASURES.items() if any(run.numbers(prefix) for run in runs)}
    if not any(run.complete for run in runs) or not measures:
        raise NoData("no run of this sweep has measured a divergence yet")
    panels = panels_of(runs, ("fl_scene.alpha", "dataset"))
    figure, axes = grid(len(measures), len(panels), 3.6, 2.4)
    rows: list[list[Value]] = []
    lower: dict[str, list[bool]] = {label: [] for label in measures.values()}  # per layer and panel, by measure
    for row, (prefix, label) in zip(axes, measures.items(), strict=True):
        for panel, (title, group) in zip(row, panels.items(), strict=True):
            layers = list(dict.fromkeys(layer for run in group for layer in run.numbers(prefix)))
            off = [_stats([run for run in group if run.is_off], prefix + layer) for layer in layers]
            on = [_stats([run for run in group if not run.is_off], prefix + layer) for layer in layers]
            _bars(panel, layers, off, on)
            panel.set(title=f"alpha={title}", ylabel=label)
            for layer, plain, aware in zip(layers, off, on, strict=True):
                change = _relative_change(plain, aware)
                if change is not None:
                    lower[label].append(change < 0)
                text = "–" if change is None else f"{change:+.0%}"
                rows.append([label, f"alpha={title}", layer, mean_std(plain, 1, 4), mean_std(aware, 1, 4), text])
    legend_below(figure, axes[0, 0])
    table = Table(["measure", "panel", "layer", "PANs off", "PANs on", "change"], rows)
    lower_in = "; ".join(f"{label} in {sum(each)} of {len(each)}" for label, each in lower.items())
    return FigureResult(figure, table, {"lower": lower_in})


def _stats(runs: Sequence[Run], name: str) -> SeedStats:
    return seed_stats(runs, lambda run: run.number(name))


def _bars(axes: Axes, layers: list[str], off: list[SeedStats], on: list[SeedStats]) -> None:
    positions = np.arange(len(layers))
    for shift, cells, colour, label in ((-0.2, off, OFF, "PANs off"), (0.2, on, ON, "PANs on")):
        deviations = [cell.deviation or 0 for cell in cells]
        axes.bar(
            positions + shift, [cell.mean or 0 for cell in cells], 0.38, color=colour, label=label,
            yerr=deviations if any(deviations) else None, capsize=2,
        )  # fmt: skip
    axes.set_xticks(positions, layers, fontsize=8, rotation=45 if len(layers) > 5 else 0)


def _relative_change(off: SeedStats, on: SeedStats) -> float | None:
    return on.mean / off.mean - 1 if off.mean and on.mean is not None else None
