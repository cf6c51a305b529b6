"""The shuffle error against A: PAN∘ for several T, and PAN+ against PAN∘."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.figure import Figure

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.figure_result import FigureResult, NoData, grid
from fedpan_exp.report.frame import PAN_NAMES
from fedpan_exp.report.style import GREEN, ON, SHADES, save
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, table
from fedpan_exp.studies.shared.figures import Findings, complete_runs, draw_points, records_with
from fedpan_exp.system.atomic_io import read_json

COLUMNS = ("mode", "A", "T", "error", "deviation")
MODES = {"add": (GREEN, 0.25), "mul": (ON, 0.75)}  # colour, largest A of practical use


def draw_errors(lines: pd.DataFrame, summary: Mapping[str, Any]) -> Figure:
    """Left: the error of PAN∘ against A, one line per T. Right: both PANs at the first T, with the fitted powers."""
    figure, axes = grid(1, 2, 4.4, 3.6)
    left, right = axes.flat
    errors = {
        (mode, T): {
            A: MeanStd(error, deviation) for A, error, deviation in group.sort_values("A").itertuples(index=False)
        }
        for (mode, T), group in lines.set_index(["mode", "T"]).groupby(level=[0, 1], sort=False)
    }
    mode = "mul" if "mul" in set(lines["mode"]) else "add"
    periods = lines["T"].unique()
    for shade, T in zip(colormaps[SHADES](np.linspace(0, 0.9, len(periods))), periods, strict=True):
        draw_points(left, errors.get((mode, T), {}), shade, f"T={T:g}")
    left.set_title(PAN_NAMES[mode], fontsize=9)
    for mode, (colour, practical) in MODES.items():
        power = summary.get(f"summary/power_{mode}")
        label = PAN_NAMES[mode] + (rf", $\sim A^{{{power:.2f}}}$" if power is not None else "")
        draw_points(right, errors.get((mode, periods[0]), {}), colour, label)
        right.axvline(practical, color=colour, linestyle=":", linewidth=1)
    right.set_title(f"T={periods[0]:g}; dotted: largest A of practical use", fontsize=9)
    for panel in (left, right):
        panel.set(xlabel="A", ylabel=r"shuffle error $\|h_{sf} - h\| / J_L$")
        panel.legend(frameon=False, fontsize=8)
    return figure


def draw_run(folder: Path) -> Path | None:
    """metrics.jsonl and summary.json -> shuffle_error.png; None for a run without errors by mode, A and T."""
    lines = records_with(folder, *COLUMNS)
    if lines.empty:
        return None
    return save(draw_errors(lines, read_json(folder / "summary.json")), folder, "shuffle_error")


def draw(sweep: Sweep) -> FigureResult:
    run = complete_runs(sweep, "shuffle_error").iloc[0]
    lines = records_with(run["folder"], *COLUMNS)
    if lines.empty:
        raise NoData("the run has no shuffle errors in metrics.jsonl")
    rows = [
        [PAN_NAMES.get(mode, mode), A, T, MeanStd(error, deviation, digits=5)]
        for mode, A, T, error, deviation in lines.itertuples(index=False)
    ]
    powers = {mode: run.get(f"summary/power_{mode}") for mode in MODES}
    findings: Findings = {f"power {mode}": MeanStd(power) for mode, power in powers.items() if pd.notna(power)}
    findings["T"] = influence_of_T(lines[(lines["mode"] == "mul") & (lines["A"] > 0)])
    figure = draw_errors(lines, read_json(run["folder"] / "summary.json"))
    return FigureResult(figure, table(["PAN", "A", "T", "shuffle error"], rows), findings)


def influence_of_T(lines: pd.DataFrame) -> str:
    """The spread of errors over T at one A, and the spread over A."""
    if lines["T"].nunique() < 2:
        return "–"
    errors = lines.groupby("A")["error"]
    over_T = (errors.max() / errors.min().clip(lower=1e-12)).max()
    over_A = errors.mean().iloc[-1] / max(errors.mean().iloc[0], 1e-12)
    return f"largest / smallest over T: {over_T:.1f}; over A: {over_A:.1f}"


def paper_figure(name: str, network: str) -> PaperFigure:
    statement = "The error grows with A, hardly with T; linearly for PAN+, faster for PAN∘."
    claims = (
        Claim("error of PAN+ grows as A to the power", 1.0, "power add"),
        Claim("error of PAN∘ grows as A to the power", "faster", "power mul"),
        Claim("influence of T", "hardly any, against A's", "T"),
    )
    return PaperFigure(name, f"Shuffle error, {network}", statement, draw, {"model": (network,)}, claims, order=2)


RUN_PLOTS = (draw_run,)
PAPER_FIGURES = (
    paper_figure("sf_func", "vgg13"),
    paper_figure("sf_func_mnist", "mlp"),
    paper_figure("sf_func_cifar", "resnet20"),
)
