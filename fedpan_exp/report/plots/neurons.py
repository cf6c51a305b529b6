"""Global against local model per neuron: assignment matrices and preferred classes, PANs off and on."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedpan_exp.report.matching import draw_dots
from fedpan_exp.report.pairing import paired, pairs
from fedpan_exp.report.plots.figure_result import FigureResult, NoData, grid
from fedpan_exp.report.preference import draw_strips
from fedpan_exp.report.runs import Run
from fedpan_exp.report.statistics import seed_stats
from fedpan_exp.report.style import OFF, ON
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, Table, Value, gain, mean_std
from fedpan_exp.system.atomic_io import read_json


def assignment(sweep: Sweep, layer: str) -> FigureResult:
    """A dot where a neuron of the global model (row) is matched to one of the local model (column)."""
    return _off_on(sweep, "matching", layer, read_matching, draw_matching, (3.2, 3.2))


def preference(sweep: Sweep, layer: str) -> FigureResult:
    """One stripe per neuron, coloured by the class it prefers; global above, local below."""
    return _off_on(sweep, "preference", layer, read_preference, draw_preference, (4.4, 1.9))


def _off_on(
    sweep: Sweep,
    study: str,
    layer: str,
    read: Callable[[Run], dict[str, Any]],
    draw: Callable[[Axes, Any], None],
    size: tuple[float, float],
) -> FigureResult:
    complete = [run for run in sweep.of(study) if run.complete and read(run)]
    if not complete:
        raise NoData(f"no run of this sweep has measured a {study} yet")
    footnotes = []
    layers = list(dict.fromkeys(name for run in complete for name in read(run)))
    if layer not in layers:
        footnotes.append(f"these networks have no layer {layer}; {layers[-1]} is shown")
        layer = layers[-1]
    value = f"summary/{study}/{layer}"
    both = pairs(complete, value)
    shown = list(both[0]) if both else complete[:2]  # one pair; the table has all
    figure, axes = grid(1, len(shown), *size)
    for panel, run in zip(axes.flat, shown, strict=True):
        draw(panel, read(run)[layer])
        fraction = run.number(value)
        label = "PANs off" if run.is_off else f"PANs on ({run.pan})"
        panel.set_title(f"{label}  [{fraction:.3f}]" if fraction is not None else label, fontsize=9, color=_colour(run))
    names = list(dict.fromkeys(name for run in complete for name in run.numbers(f"summary/{study}/")))
    rows = [_row(sweep.of(study), f"summary/{study}/{name}", name) for name in names]
    table = Table(["layer", "PANs off (%)", "PANs on (%)", "on - off (points)", "pairs"], rows)
    findings: dict[str, MeanStd | str] = {}
    for row in rows:
        if row[0] == layer and isinstance(row[3], MeanStd):
            findings = {"off": str(row[1]) + "%", "on": str(row[2]) + "%", "gain": row[3]}
    return FigureResult(figure, table, findings, [*footnotes, f"shown: seed {shown[0].seed}, {layer}"])


def read_matching(run: Run) -> dict[str, Any]:
    """Layer -> the column matched to each row."""
    layers = read_json(run.entry.folder / "matching.json")
    return {layer: np.array(columns) for layer, columns in layers.items() if isinstance(columns, list) and columns}


def read_preference(run: Run) -> dict[str, Any]:
    """Layer -> preference vectors [neurons, classes] of the global and of the local model."""
    try:
        tensors = load_file(run.entry.folder / "preference.safetensors")
    except (OSError, SafetensorError):
        return {}
    layers = [name.removeprefix("global/") for name in tensors if name.startswith("global/")]
    return {
        layer: (tensors[f"global/{layer}"], tensors[f"local/{layer}"])
        for layer in layers
        if f"local/{layer}" in tensors
    }


def draw_matching(axes: Axes, columns: np.ndarray) -> None:
    draw_dots(axes, columns)
    axes.set(xlabel="local neuron", ylabel="global neuron")


def draw_preference(axes: Axes, models: tuple[np.ndarray, np.ndarray]) -> None:
    draw_strips(axes, *models)
    axes.set_xlabel("neuron")
    axes.grid(visible=False)


def _row(runs: Sequence[Run], value: str, layer: str) -> list[Value]:
    off = seed_stats([run for run in runs if run.is_off], lambda run: run.number(value))
    on = seed_stats([run for run in runs if not run.is_off], lambda run: run.number(value))
    difference = paired(runs, value)
    return [layer, mean_std(off), mean_std(on), gain(difference), difference.n]


def _colour(run: Run) -> str:
    return OFF if run.is_off else ON
