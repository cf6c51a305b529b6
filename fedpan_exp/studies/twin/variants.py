"""Controls and kinds of PANs against the plain network of the same start: accuracy, and measures of identity."""

from collections.abc import Mapping
from math import isnan

import pandas as pd
from matplotlib.figure import Figure

from fedpan_exp.report.figure import FigureResult, Findings, legend_below, panels
from fedpan_exp.report.frame import PAN_NAMES, column, each
from fedpan_exp.report.statistics import MeanStd, gains_over, mean_of_seeds, mean_std, measured, seed_stats
from fedpan_exp.report.style import GREY, OFF, ON
from fedpan_exp.studies.federate.lines import trained_runs

USUAL = {"algorithm": "fedavg", "model.head": "trained", "model.init": "authors"}
VARIED = ("pan", "algorithm", "model.head", "probes", "probe_every")  # in which a run may differ from its baseline
TO_MOVE = "neurons to move"  # by weight matching
MEASURES = {  # columns of the table -> numbers of the summary; those of several layers are averaged
    "barrier": r"^summary/barrier/pair$",
    "barrier, matched": r"^summary/barrier/pair_matched$",
    TO_MOVE: r"^summary/matching_gap/(?!gain)",
    "median swap cost": r"^summary/swap_cost/.*_median$",
}
FOOTNOTE = (
    "difference: to PANs off with FedAvg, a trained head and the same initialisation, paired by seed; its interval is "
    "Student's, at 95%"
)


def compare_variants(runs: pd.DataFrame) -> FigureResult:
    """One line per variant: its accuracy minus that of the plain network, with an interval."""
    runs = trained_runs(runs)
    usual = USUAL | shared_initialisation(runs)
    variants = pd.Series([describe(run, usual) for run in each(runs)], runs.index)
    complete = measured(runs)
    gains = gains_over(complete[is_plain(complete)], complete, *VARIED)
    rows, findings = [], Findings()
    for variant, group in runs.groupby(variants, sort=False):
        difference = mean_of_seeds(gains.reindex(group.index), runs)
        measures = {name: average(group, pattern) for name, pattern in MEASURES.items()}
        row = {"variant": variant, "accuracy (%)": seed_stats(group), "difference (points)": difference}
        rows.append(row | {"interval": show_interval(difference), "seeds": difference.n} | measures)
    without_amplitude = variants.str.replace(r" \d\S*", "", regex=True)
    for kind, group in runs.groupby(without_amplitude, sort=False):
        moved = average(group, MEASURES[TO_MOVE])
        findings |= {kind: mean_of_seeds(gains.reindex(group.index), runs), f"{kind}, {TO_MOVE}": moved}
    table = pd.DataFrame(rows)
    return FigureResult(draw_differences(table), table, findings, [FOOTNOTE])


def draw_differences(table: pd.DataFrame) -> Figure:
    compared = table[table["variant"] != "off"]
    compared = compared.assign(is_pan=compared["variant"].str.startswith(tuple(PAN_NAMES.values())))
    compared = compared.sort_values("is_pan", ascending=False, kind="stable")
    xlabel = "accuracy minus that of the plain network\n(points, 95% intervals)"
    figure, (panel,) = panels([""], xlabel, size=(6.0, 1.2 + 0.25 * len(compared)))
    for y, (is_pan, cell) in enumerate(zip(compared["is_pan"], compared["difference (points)"], strict=True)):
        colour, label = (ON, "PANs") if is_pan else (OFF, "controls and other kinds")
        panel.errorbar(cell.mean, y, xerr=cell.half_width, fmt="o", capsize=3, markersize=4, color=colour, label=label)
    panel.axvline(0, color=GREY, linewidth=1)
    panel.set_yticks(range(len(compared)), compared["variant"].str.removeprefix("off algorithm="), fontsize=8)
    legend_below(figure, panel)
    panel.invert_yaxis()
    return figure


def show_interval(cell: MeanStd) -> str:
    low, high = cell.mean - cell.half_width, cell.mean + cell.half_width
    return "" if isnan(cell.half_width) else f"{low:+.2f} to {high:+.2f}"


def shared_initialisation(runs: pd.DataFrame) -> dict[str, str]:
    """The initialisation of all runs, which needs no mention; empty if there are several."""
    initialisations = column(runs, "model.init").fillna(USUAL["model.init"]).unique()
    return {"model.init": initialisations[0]} if len(initialisations) == 1 else {}


def describe(run: pd.Series, usual: Mapping[str, str]) -> str:
    """PAN∘ 0.1 init=he"""
    others = [f"{name.split('.')[-1]}={run[name]}" for name, value in usual.items() if run.get(name, value) != value]
    return " ".join([run["pan"], *others])


def is_plain(runs: pd.DataFrame) -> pd.Series:
    """Whether a run is a baseline: PANs off, FedAvg, a trained head."""
    has_trained_head = column(runs, "model.head").fillna("trained") == "trained"
    return (runs["pan"] == "off") & (runs["algorithm"] == "fedavg") & has_trained_head


def average(group: pd.DataFrame, pattern: str) -> MeanStd:
    """The mean over layers and seeds of the numbers whose names match."""
    return mean_std(measured(group).filter(regex=pattern).astype(float).mean(axis=1).dropna(), scale=1, digits=3)
