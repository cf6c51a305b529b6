"""Controls and kinds of PANs against the plain network of the same start: accuracy, and measures of identity."""

import pandas as pd

from fedpan_exp.report.figure import FigureResult, Findings, panels
from fedpan_exp.report.frame import column, each
from fedpan_exp.report.statistics import MeanStd, gains_over, mean_std, measured, seed_stats
from fedpan_exp.report.style import GREY, OFF, ON
from fedpan_exp.studies.federate.lines import trained_runs

USUAL = {"algorithm": "fedavg", "model.head": "trained", "model.init": "authors"}
VARIED = ("pan", "algorithm", "model.head", "probes", "probe_every")  # in which a run may differ from its baseline
MEASURES = {  # columns of the table -> numbers of the summary; those of several layers are averaged
    "barrier": r"^summary/barrier/pair$",
    "barrier, matched": r"^summary/barrier/pair_matched$",
    "neurons to move": r"^summary/matching_gap/(?!gain)",
    "median swap cost": r"^summary/swap_cost/.*_median$",
}
FOOTNOTE = "difference: to PANs off with FedAvg, a trained head and the same initialisation, paired by seed"


def compare_variants(runs: pd.DataFrame) -> FigureResult:
    """One bar per variant: its accuracy minus that of the plain network."""
    runs = trained_runs(runs)
    variants = pd.Series([describe(run) for run in each(runs)], runs.index)
    complete = measured(runs)
    gains = gains_over(complete[is_plain(complete)], complete, *VARIED)
    rows, bars = [], {}
    for variant, group in runs.groupby(variants, sort=False):
        bars[variant] = difference = mean_std(gains.reindex(group.index).dropna(), sign=True)
        row = {"variant": variant, "accuracy (%)": seed_stats(group), "difference (points)": difference}
        row |= {"pairs": difference.n} | {name: average(group, pattern) for name, pattern in MEASURES.items()}
        rows.append(row)
    xlabel = "accuracy minus that of the plain network (points)"
    figure, (panel,) = panels([""], xlabel, size=(6.0, 1.0 + 0.25 * len(bars)))
    table = pd.DataFrame([(bar.mean, bar.deviation) for bar in bars.values()], list(bars), ["mean", "deviation"])
    colours = [OFF if variant.startswith("off") else ON for variant in bars]
    panel.barh(table.index, table["mean"].fillna(0), color=colours, xerr=table["deviation"], capsize=2)
    panel.axvline(0, color=GREY, linewidth=1)
    panel.invert_yaxis()
    findings: Findings = {variant.split()[0]: bar for variant, bar in bars.items() if len(variant.split()) == 2}
    return FigureResult(figure, pd.DataFrame(rows), findings, [FOOTNOTE])


def describe(run: pd.Series) -> str:
    """PAN∘ 0.1 init=he"""
    others = [f"{name.split('.')[-1]}={run[name]}" for name, usual in USUAL.items() if run.get(name, usual) != usual]
    return " ".join([run["pan"], *others])


def is_plain(runs: pd.DataFrame) -> pd.Series:
    """Whether a run is a baseline: PANs off, FedAvg, a trained head."""
    has_trained_head = column(runs, "model.head").fillna("trained") == "trained"
    return (runs["pan"] == "off") & (runs["algorithm"] == "fedavg") & has_trained_head


def average(group: pd.DataFrame, pattern: str) -> MeanStd:
    """The mean over layers and seeds of the numbers whose names match."""
    return mean_std(measured(group).filter(regex=pattern).astype(float).mean(axis=1).dropna(), scale=1, digits=3)
