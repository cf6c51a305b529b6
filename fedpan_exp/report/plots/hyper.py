"""Accuracy against A, and how often each PAN is best over all runs."""

from collections import Counter

from fedpan_exp.report.plots.figure_result import FigureResult, grid, legend_below
from fedpan_exp.report.plots.lines import draw_pans, measured
from fedpan_exp.report.runs import Run
from fedpan_exp.report.statistics import best_pan
from fedpan_exp.report.style import GREEN, OFF, ON
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, Table, Value


def draw(sweep: Sweep) -> FigureResult:
    runs = measured(sweep.runs)
    figure, axes = grid(1, 2, 4.0, 3.0)
    left, right = axes.flat
    findings: dict[str, MeanStd | str] = {}
    rows: list[list[Value]] = draw_pans(left, runs, "pan.A", ("pan.A",), str(runs[0].setting("dataset")), findings)
    left.set_title(str(runs[0].setting("dataset")), fontsize=9)
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
    table = Table(["panel", "PAN", "setting", "accuracy (%)", "on - off (points)", "pairs"], rows)
    return FigureResult(
        figure, table, findings, [f"right: over the {total} settings that were run with PANs off and on"]
    )


def winners(runs: tuple[Run, ...]) -> Counter[str]:
    """How often each PAN, or off, is best: by the mean of the last five over the seeds that all of a setting share."""
    settings: dict[str, list[Run]] = {}
    for run in runs:
        if run.setting("study") == "federate":
            settings.setdefault(run.key("pan", "seed"), []).append(run)
    candidates = [best_pan(group) for group in settings.values()]
    return Counter(
        candidate.pan if candidate.on.mean > candidate.off.mean else "off"
        for candidate in candidates
        if candidate.on.mean is not None and candidate.off.mean is not None
    )
