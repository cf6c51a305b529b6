"""What misplaced neurons cost in FL: shuffled clients on i.i.d. data against non-i.i.d. data."""

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from fedpan_exp.report.figure import FigureResult, Findings, draw_level, draw_line, legend, panels, panels_of
from fedpan_exp.report.frame import column, records, show
from fedpan_exp.report.statistics import MeanStd, gains_over, mean_of_seeds, measured, stats_by
from fedpan_exp.report.style import BLUE, GREEN, GREY, ORANGE, PINK
from fedpan_exp.studies.federate.lines import trained_runs
from fedpan_exp.studies.kept_ratio.figure import draw_ratio

ALPHA = "fl_scene.alpha"


def draw_cost(axes: Axes, shuffled: Mapping[float, MeanStd], levels: Mapping[float, MeanStd]) -> None:
    """Accuracy against N_sf; `levels` are accuracies without shuffles by alpha, as horizontal lines."""
    for colour, (alpha, level) in zip(cycle((GREY, GREEN, BLUE, PINK)), levels.items(), strict=False):
        draw_level(axes, level, colour, f"alpha={show(alpha)}")
    draw_line(axes, shuffled, ORANGE, "shuffled")
    axes.set(xlabel="$N_{sf}$, shuffles per client and round", ylabel="test accuracy (%)")
    legend(axes)


def draw(runs: pd.DataFrame, all_runs: pd.DataFrame) -> FigureResult:
    """Dashed lines: FL by alpha. Dots: shuffled clients at the largest alpha. Last panel: kept ratio by N_sf."""
    counted = runs[runs["study"] == "kept_ratio"]
    counted = all_runs if counted.empty else counted
    folders = [folder for folder in counted["folder"][counted["complete"]] if "N_sf" in records(folder)]
    groups = panels_of(trained_runs(runs[runs["study"] != "kept_ratio"]), ("dataset",))
    figure, axes = panels([*groups, *(["neurons kept"] if folders else [])])
    rows: list[dict[str, Any]] = []
    findings: Findings = {}
    for panel, (title, group) in zip(axes, groups.items(), strict=False):
        is_shuffled = column(group, "study.N_sf").fillna(0) > 0
        plain = group[~is_shuffled]
        levels, shuffled = stats_by(plain, ALPHA), stats_by(group[is_shuffled], "study.N_sf")
        draw_cost(panel, shuffled, levels)
        cells = {f"alpha={show(alpha)}": cell for alpha, cell in levels.items()}
        cells |= {f"N_sf={show(N_sf)}": cell for N_sf, cell in shuffled.items()}
        rows += [{"panel": title, "setting": setting, "accuracy or kept (%)": cell} for setting, cell in cells.items()]
        if len(levels) > 1 and 0.2 in shuffled and (title == "cifar10" or "drop" not in findings):  # the paper's
            lowest = measured(plain[plain[ALPHA] == min(levels)])
            drops = gains_over(lowest, measured(group[column(group, "study.N_sf") == 0.2]), "study", ALPHA)
            findings["drop"] = mean_of_seeds(drops, group, remark=title)
    if folders:
        kept = draw_ratio(axes[-1], folders[0], "N_sf", BLUE)
        rows += [
            {"panel": "neurons kept", "setting": setting, "accuracy or kept (%)": ratio}
            for setting, ratio in kept.items()
        ]
        findings |= {f"kept {setting}": ratio for setting, ratio in kept.items()}
    return FigureResult(figure, pd.DataFrame(rows), findings)
