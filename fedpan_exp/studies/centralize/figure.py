"""Centralized training: our accuracies next to the paper's."""

from collections.abc import Mapping

import pandas as pd

from fedpan_exp.report.figure import FigureResult, Findings
from fedpan_exp.report.frame import column
from fedpan_exp.report.statistics import MeanStd, seed_stats
from fedpan_exp.studies.federate.lines import trained_runs
from fedpan_exp.studies.federate.scores import draw_scores


def accuracies(runs: pd.DataFrame, expected: Mapping[str, float]) -> FigureResult:
    """One row per dataset and optimizer."""
    runs = trained_runs(runs)
    rows = []
    findings: Findings = {}
    ours: dict[str, dict[str, MeanStd]] = {}
    printed: dict[str, dict[str, float]] = {}
    optimizers = column(runs, "study.optimizer").fillna("sgd")
    for (dataset, optimizer), group in runs.groupby(["dataset", optimizers], sort=False):
        cell, paper = seed_stats(group), expected.get(f"{dataset} {optimizer}")
        ours.setdefault(dataset, {})[optimizer] = findings[f"{dataset} {optimizer}"] = cell
        if paper is not None:
            printed.setdefault(dataset, {})[optimizer] = paper
        row = {"dataset": dataset, "network": ", ".join(group["model"].unique()), "optimizer": optimizer}
        difference = MeanStd(cell.mean - (float("nan") if paper is None else paper), sign=True)
        rows.append(row | {"paper (%)": paper, "ours (%)": cell, "ours - paper": difference})
    return FigureResult(draw_scores(ours, printed), pd.DataFrame(rows), findings)
