"""A PAN network and its plain twin: two curves on top of each other, their difference below on a log scale."""

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import pandas as pd

from fedpan_exp.report.describe import describe, distinguishing_keys
from fedpan_exp.report.figure import FigureResult, NoData, legend, panels
from fedpan_exp.report.frame import each, records
from fedpan_exp.report.style import BLUE, GREY, ORANGE, SERIES
from fedpan_exp.studies.twin.variants import compare_variants

COLUMNS = ("round", "pan/test_acc", "twin/test_acc", "pan/test_loss", "twin/test_loss", "twin/difference")
SMALLEST = 1e-17  # shown for 0, which a log scale does not have


def draw(runs: pd.DataFrame) -> FigureResult:
    return draw_run(runs.iloc[0]) if len(runs) == 1 else draw_sweep(runs)


def draw_sweep(runs: pd.DataFrame) -> FigureResult:
    """One line per run: how far the weights of its two networks are apart."""
    figure, (panel,) = panels([""], "round", "largest difference of a weight", size=(6.0, 3.6))
    names, rows = distinguishing_keys(runs), []
    for colour, run in zip(cycle(SERIES), each(runs), strict=False):
        lines = records(run["folder"]).reindex(columns=["round", "twin/difference"]).dropna()
        if len(lines):
            label, differences = describe(run, names), lines["twin/difference"]
            panel.semilogy(
                lines["round"], differences.clip(lower=SMALLEST), "o-", color=colour, markersize=3, label=label
            )
            rows.append({"run": label, "": recorded_verdict(run), "largest difference": f"{differences.max():.1e}"})
    if not rows:
        raise NoData("no run of this sweep has a twin")
    legend(panel)
    return FigureResult(figure, pd.DataFrame(rows))


def recorded_verdict(run: Mapping[str, Any]) -> str:
    """The verdict of a row of the table of runs; empty if the run has not ended."""
    if pd.notna(absorbed := run.get("summary/absorbed")):
        return "absorbed" if absorbed else "not absorbed"
    return "undecided" if pd.notna(run.get("summary/rounding")) else ""


def draw_run(run: pd.Series) -> FigureResult:
    rounds = records(run["folder"]).reindex(columns=COLUMNS)
    lines = rounds.dropna()  # with an evaluation
    if lines.empty:
        raise NoData("the run has no twin")
    figure, axes = panels([recorded_verdict(run), "", "", ""], "round", size=(4.4, 2.6), columns=2)
    for panel, name in zip(axes[:2], ("acc", "loss"), strict=True):
        panel.plot(lines["round"], lines[f"pan/test_{name}"], color=BLUE, linewidth=4, alpha=0.5, label="PAN")
        panel.plot(lines["round"], lines[f"twin/test_{name}"], color=ORANGE, linewidth=1.2, label="plain twin")
        panel.set(ylabel={"acc": "test accuracy", "loss": "test loss"}[name])
    legend(axes[0])
    loss_difference = (lines["pan/test_loss"] - lines["twin/test_loss"]).abs()
    differences = {"largest difference of a weight": rounds["twin/difference"], "difference of losses": loss_difference}
    for panel, (label, values) in zip(axes[2:], differences.items(), strict=True):
        panel.semilogy(rounds["round"][values.index], values.clip(lower=SMALLEST), "o-", color=GREY, markersize=3)
        panel.set_ylabel(label)
    return FigureResult(figure)


__all__ = ["compare_variants", "draw"]
RUN_PLOTS = {"twin": draw}
