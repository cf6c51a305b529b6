"""Accuracy against A, and which PAN was best how often in all experiments at hand."""

from collections import Counter

from fedpan_exp.report.plots.figure_result import FigureResult, grid, key_below
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
    found: dict[str, MeanStd | str] = {}
    rows: list[list[Value]] = draw_pans(left, runs, "pan.A", ("pan.A",), str(runs[0].setting("dataset")), found)
    left.set_title(str(runs[0].setting("dataset")), fontsize=9)
    key_below(figure, left)

    best = winners(sweep.others)
    total = sum(best.values())
    shares = {pan: 100 * count / total for pan, count in sorted(best.items())}
    colours = [OFF if pan == "off" else GREEN if "+" in pan else ON for pan in shares]
    right.barh(list(shares), list(shares.values()), color=colours)
    right.set(xlabel=f"best in % of {total} settings")
    right.invert_yaxis()
    rows += [
        ["all experiments", pan, "best setting", f"{share:.0f}% of {total}", None, None]
        for pan, share in shares.items()
    ]
    if total:
        found["off best"] = MeanStd(shares.get("off", 0.0), n=total, digits=0)
    table = Table(["panel", "PAN", "setting", "accuracy (%)", "on - off (points)", "pairs"], rows)
    return FigureResult(
        figure, table, found, [f"right: over {total} settings of all runs here that have PANs off and on"]
    )


def winners(runs: tuple[Run, ...]) -> Counter[str]:
    """For each setting tried with PANs off and on, the best: by mean last five over the seeds all of them share."""
    settings: dict[str, list[Run]] = {}
    for run in runs:
        if run.setting("study") == "federate":
            settings.setdefault(run.key("pan", "seed"), []).append(run)
    choices = [best_pan(there) for there in settings.values()]
    return Counter(
        choice.pan if choice.on.mean > choice.off.mean else "off"
        for choice in choices
        if choice.on.mean is not None and choice.off.mean is not None
    )
