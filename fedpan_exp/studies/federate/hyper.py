"""Accuracy against A, and how often each PAN is best over all runs."""

import pandas as pd

from fedpan_exp.report.figure import FigureResult, legend_below, panels
from fedpan_exp.report.frame import key
from fedpan_exp.report.statistics import MeanStd, best_pan
from fedpan_exp.report.style import GREEN, OFF, ON
from fedpan_exp.studies.federate.lines import draw_pans, trained_runs


def best_A(runs: pd.DataFrame, all_runs: pd.DataFrame) -> FigureResult:
    runs = trained_runs(runs)
    dataset = runs["dataset"].iloc[0]
    best = winners(all_runs)
    percentages = 100 * best.value_counts(normalize=True).sort_index()
    figure, (left, right) = panels([dataset, ""], size=(4.0, 3.0))
    rows, findings = draw_pans(left, runs, "pan.A", ["pan.A"])
    left.set_ylabel("accuracy (%)")
    legend_below(figure, left)
    colours = [OFF if pan == "off" else GREEN if "+" in pan else ON for pan in percentages.index]
    right.barh(percentages.index, percentages, color=colours)
    right.set_xlabel(f"best in % of {len(best)} settings")
    right.invert_yaxis()
    rows += [
        {"PAN": pan, "setting": "best setting", "accuracy (%)": f"{percentage:.0f}% of {len(best)}"}
        for pan, percentage in percentages.items()
    ]
    if len(best):
        findings["off best"] = MeanStd(percentages.get("off", 0.0), n=len(best), digits=0)
    footnotes = [f"right: over the {len(best)} settings that were run with PANs off and on"]
    return FigureResult(figure, pd.DataFrame(rows), findings, footnotes)


def winners(runs: pd.DataFrame) -> pd.Series:
    """The best PAN, or off, of each setting: by the mean of the last five over the seeds that all of it share."""
    federated = runs[runs["study"] == "federate"]
    settings = [best_pan(group) for _, group in federated.groupby(key(federated, "pan", "seed"), sort=False)]
    compared = [best for best in settings if best.pan != "off" and len(best.gains)]
    return pd.Series([best.pan if best.on.mean > best.off.mean else "off" for best in compared], dtype=object)
