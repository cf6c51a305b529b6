"""Centralized training: our accuracies next to the paper's, and accuracy against A."""

from functools import partial

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.figure_result import FigureResult
from fedpan_exp.report.frame import column
from fedpan_exp.report.statistics import seed_stats
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, mean_std, table
from fedpan_exp.studies.federate.lines import pan_against, trained_runs
from fedpan_exp.studies.federate.scores import draw_scores
from fedpan_exp.studies.shared.figures import Findings, Rows

PRINTED = {
    "femnist": {"sgd": 53.39, "adam": 54.25},
    "gtsrb": {"sgd": 86.96, "adam": 90.84},
    "svhn": {"sgd": 89.93, "adam": 91.13},
    "cifar10": {"sgd": 84.57, "adam": 87.13},
    "cifar100": {"sgd": 70.82, "adam": 67.22},
    "cinic10": {"sgd": 82.76, "adam": 81.99},
}


def draw(sweep: Sweep) -> FigureResult:
    """One row per dataset and optimizer."""
    runs = trained_runs(sweep.runs)
    rows: Rows = []
    findings: Findings = {}
    ours: dict[str, dict[str, MeanStd]] = {}
    optimizers = column(runs, "study.optimizer").fillna("sgd")
    for (dataset, optimizer), group in runs.groupby(["dataset", optimizers], sort=False):
        cell, paper = mean_std(seed_stats(group)), PRINTED.get(dataset, {}).get(optimizer)
        ours.setdefault(dataset, {})[optimizer] = findings[f"{dataset} {optimizer}"] = cell
        difference = MeanStd(None if cell.mean is None or paper is None else cell.mean - paper, sign=True)
        rows.append([dataset, ", ".join(group["model"].unique()), optimizer, paper, cell, difference])
    columns = ["dataset", "network", "optimizer", "paper (%)", "ours (%)", "ours - paper"]
    return FigureResult(draw_scores(ours, PRINTED), table(columns, rows), findings)


PAPER_FIGURES = (
    PaperFigure(
        "cent_acc", "Centralized training", "The upper bound of FL, without PANs.", draw, {"dataset": tuple(PRINTED)},
        [
            Claim(f"{dataset}, {optimizer} (%)", value, f"{dataset} {optimizer}")
            for dataset, row in PRINTED.items()
            for optimizer, value in row.items()
        ],
        order=9,
    ),
    PaperFigure(
        "cent", "Centralized training with PANs", "Slightly lower with larger A.",
        partial(pan_against, settings=("pan.A",)), {"dataset": tuple(PRINTED)},
        (Claim("best A of PAN+", "0", "best add A"), Claim("best A of PAN∘", "0", "best mul A")), order=9,
    ),
)  # fmt: skip
