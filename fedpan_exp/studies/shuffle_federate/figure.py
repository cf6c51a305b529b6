"""What misplaced neurons cost in FL: shuffled clients on i.i.d. data against non-i.i.d. data."""

from collections.abc import Mapping
from itertools import cycle

import pandas as pd
from matplotlib.axes import Axes

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.figure_result import FigureResult, panels_of
from fedpan_exp.report.frame import column, records, show
from fedpan_exp.report.statistics import SeedStats, seed_stats
from fedpan_exp.report.style import BLUE, GREEN, GREY, ORANGE, PINK
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, mean_std, table
from fedpan_exp.studies.federate.lines import trained_runs
from fedpan_exp.studies.kept_ratio.figure import draw_ratio
from fedpan_exp.studies.shared.figures import Findings, Rows, draw_level, draw_points, scene, titled_panels


def draw_cost(axes: Axes, shuffled: Mapping[float, SeedStats], levels: Mapping[float, SeedStats]) -> None:
    """Accuracy against N_sf; `levels` are accuracies without shuffles by alpha, as horizontal lines."""
    for colour, (alpha, level) in zip(cycle((GREY, GREEN, BLUE, PINK)), levels.items(), strict=False):
        draw_level(axes, mean_std(level), colour, f"alpha={show(alpha)}")
    draw_points(axes, {N_sf: mean_std(cell) for N_sf, cell in shuffled.items()}, ORANGE, "shuffled")
    axes.set(xlabel="$N_{sf}$, shuffles per client and round", ylabel="test accuracy (%)")
    axes.legend(frameon=False, fontsize=7)


def draw(sweep: Sweep) -> FigureResult:
    """Dotted lines: FL by alpha. Dots: shuffled clients at the largest alpha. Last panel: kept ratio by N_sf."""
    panels = panels_of(trained_runs(sweep.of("federate", "shuffle_federate")), ("dataset",))
    counted = sweep.of("kept_ratio")
    counted = sweep.all_runs if counted.empty else counted
    folders = [folder for folder in counted["folder"][counted["complete"]] if "N_sf" in records(folder)]
    figure, axes = titled_panels([*panels, *(["neurons kept"] if folders else [])], 3.8, 3.0)
    rows: Rows = []
    findings: Findings = {}
    for panel, (title, runs) in zip(axes, panels.items(), strict=False):
        is_shuffled = column(runs, "study.N_sf").fillna(0) > 0
        levels, shuffled = stats_by(runs[~is_shuffled], "fl_scene.alpha"), stats_by(runs[is_shuffled], "study.N_sf")
        draw_cost(panel, shuffled, levels)
        rows += [[title, f"alpha={show(alpha)}", mean_std(cell)] for alpha, cell in levels.items() if cell.n]
        rows += [[title, f"N_sf={show(N_sf)}", mean_std(cell)] for N_sf, cell in shuffled.items()]
        lowest = next((cell for cell in levels.values() if cell.mean is not None), SeedStats())
        if 0.2 in shuffled and lowest.n and (title == "cifar10" or "drop" not in findings):  # the paper has cifar10
            findings["drop"] = _difference(shuffled[0.2], lowest, title)
    if folders:
        kept = draw_ratio(axes[-1], folders[0], "N_sf", BLUE)
        rows += [["neurons kept", setting, ratio] for setting, ratio in kept.items()]
        findings |= {f"kept {setting}": ratio for setting, ratio in kept.items()}
    return FigureResult(figure, table(["panel", "setting", "accuracy or kept (%)"], rows), findings)


def stats_by(runs: pd.DataFrame, setting: str) -> dict[float, SeedStats]:
    """Value of the setting -> statistics of its runs, in rising order."""
    return {value: seed_stats(group) for value, group in runs.groupby(column(runs, setting))}


def _difference(shuffled: SeedStats, noniid: SeedStats, dataset: str) -> MeanStd:
    if shuffled.mean is None or noniid.mean is None:
        return MeanStd(None)
    return MeanStd(100 * (shuffled.mean - noniid.mean), n=min(shuffled.n, noniid.n), remark=dataset, sign=True)


PAPER_FIGURES = (
    PaperFigure(
        "sf_fl", "How many neurons are misplaced in FL?",
        "Shuffling costs as much as non-i.i.d. data: on Cifar10, N_sf=0.2 equals alpha=0.1.", draw,
        scene("cifar10", alpha=(10.0, 1.0, 0.1)),
        (
            Claim("neurons kept at N_sf=1 (%)", 84.0, "kept N_sf=1"),
            Claim("neurons kept at N_sf=0.2 (%)", 96.2, "kept N_sf=0.2"),
            Claim("N_sf=0.2 on i.i.d. data minus the smallest alpha (points)", 0.0, "drop"),
        ),
        uses_all_runs=True, order=4,
    ),
)  # fmt: skip
