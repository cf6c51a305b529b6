"""Controls and kinds of PANs against the plain network of the same start: accuracy, and measures of identity."""

import pandas as pd

from fedpan_exp.report.figure_result import FigureResult, grid
from fedpan_exp.report.frame import VALUE, column, each, key
from fedpan_exp.report.statistics import Paired, measured, seed_stats
from fedpan_exp.report.style import GREY, OFF, ON
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, gain, mean_std, table
from fedpan_exp.studies.federate.lines import trained_runs
from fedpan_exp.studies.shared.figures import Findings, Rows

USUAL = {"algorithm": "fedavg", "model.head": "trained", "model.init": "authors"}
VARIED = ("pan", "algorithm", "model.head", "probes", "probe_every")  # in which a run may differ from its baseline
MEASURES = {  # columns of the table -> numbers of the summary; those of several layers are averaged
    "barrier": r"^summary/barrier/pair$",
    "barrier, matched": r"^summary/barrier/pair_matched$",
    "neurons to move": r"^summary/matching_gap/(?!gain)",
    "median swap cost": r"^summary/swap_cost/.*_median$",
}
FOOTNOTE = "difference: to PANs off with FedAvg, a trained head and the same initialisation, paired by seed"


def compare_variants(sweep: Sweep) -> FigureResult:
    """One bar per variant: its accuracy minus that of the plain network."""
    runs = trained_runs(sweep.runs)
    variants = pd.Series([describe(run) for run in each(runs)], runs.index)
    rows: Rows = []
    bars: dict[str, MeanStd] = {}
    for variant, group in runs.groupby(variants, sort=False):
        bars[variant] = difference = gain(against_plain(group, runs))
        numbers = [average(group, pattern) for pattern in MEASURES.values()]
        rows.append([variant, mean_std(seed_stats(group)), difference, difference.n, *numbers])
    figure, axes = grid(1, 1, 6.0, 1.0 + 0.25 * len(bars))
    panel, means = axes[0, 0], [bar.mean or 0.0 for bar in bars.values()]
    deviations = [bar.deviation or 0.0 for bar in bars.values()]
    colours = [OFF if variant.startswith("off") else ON for variant in bars]
    panel.barh(list(bars), means, color=colours, xerr=deviations, capsize=2)
    panel.axvline(0, color=GREY, linewidth=1)
    panel.set(xlabel="accuracy minus that of the plain network (points)")
    panel.invert_yaxis()
    findings: Findings = {variant.split()[0]: bar for variant, bar in bars.items() if len(variant.split()) == 2}
    columns = ["variant", "accuracy (%)", "difference (points)", "pairs", *MEASURES]
    return FigureResult(figure, table(columns, rows), findings, [FOOTNOTE])


def describe(run: pd.Series) -> str:
    """PAN∘ 0.1 init=he"""
    others = [f"{name.split('.')[-1]}={run[name]}" for name, usual in USUAL.items() if run.get(name, usual) != usual]
    return " ".join([run["pan"], *others])


def against_plain(group: pd.DataFrame, runs: pd.DataFrame) -> Paired:
    complete = measured(runs)
    is_plain = (complete["pan"] == "off") & (complete["algorithm"] == "fedavg")
    is_plain &= column(complete, "model.head").fillna("trained") == "trained"
    baselines = dict(zip(key(complete, *VARIED)[is_plain], column(complete, VALUE)[is_plain], strict=True))
    ours = measured(group)
    return Paired(tuple((column(ours, VALUE) - key(ours, *VARIED).map(baselines).astype(float)).dropna()))


def average(group: pd.DataFrame, pattern: str) -> MeanStd:
    """The mean over layers and seeds of the numbers whose names match."""
    numbers = measured(group).filter(regex=pattern).astype(float).mean(axis=1).dropna()
    deviation = float(numbers.std()) if len(numbers) > 1 else None
    return MeanStd(float(numbers.mean()), deviation, len(numbers), digits=3) if len(numbers) else MeanStd(None, n=0)
