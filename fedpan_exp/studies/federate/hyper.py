"""Accuracy against A, and how often each PAN is best over all runs."""

from collections import Counter

import pandas as pd

from fedpan_exp.report.figure_result import FigureResult, grid, legend_below
from fedpan_exp.report.frame import key
from fedpan_exp.report.statistics import best_pan
from fedpan_exp.report.style import GREEN, OFF, ON
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, table
from fedpan_exp.studies.federate.lines import PAN_COLUMNS, draw_pans, trained_runs


def draw(sweep: Sweep) -> FigureResult:
    runs = trained_runs(sweep.runs)
    figure, axes = grid(1, 2, 4.0, 3.0)
    left, right = axes.flat
    dataset = runs["dataset"].iloc[0]
    rows, findings = draw_pans(left, runs, "pan.A", ("pan.A",), dataset)
    left.set_title(dataset, fontsize=9)
    legend_below(figure, left)

    best = winners(sweep.all_runs)
    total = sum(best.values())
    percentages = {pan: 100 * count / total for pan, count in sorted(best.items())}
    colours = [OFF if pan == "off" else GREEN if "+" in pan else ON for pan in percentages]
    right.barh(list(percentages), list(percentages.values()), color=colours)
    right.set(xlabel=f"best in % of {total} settings")
    right.invert_yaxis()
    rows += [
        ["all experiments", pan, "best setting", f"{percentage:.0f}% of {total}", None, None]
        for pan, percentage in percentages.items()
    ]
    if total:
        findings["off best"] = MeanStd(percentages.get("off", 0.0), n=total, digits=0)
    footnotes = [f"right: over the {total} settings that were run with PANs off and on"]
    return FigureResult(figure, table(PAN_COLUMNS, rows), findings, footnotes)


def winners(runs: pd.DataFrame) -> Counter[str]:
    """How often each PAN, or off, is best: by the mean of the last five over the seeds that all of a setting share."""
    federated = runs[runs["study"] == "federate"]
    candidates = [best_pan(group) for _, group in federated.groupby(key(federated, "pan", "seed"), sort=False)]
    return Counter(
        candidate.pan if candidate.on.mean > candidate.off.mean else "off"
        for candidate in candidates
        if candidate.on.mean is not None and candidate.off.mean is not None
    )
