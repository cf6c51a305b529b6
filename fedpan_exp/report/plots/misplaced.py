"""What misplaced neurons cost in FL: shuffled clients on i.i.d. data against non-i.i.d. data."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from fedpan_exp.report.plots.figure_result import FigureResult, grid, panels_of, values_of
from fedpan_exp.report.plots.lines import measured
from fedpan_exp.report.plots.shuffling import draw_kept_ratio
from fedpan_exp.report.runs import Run, show
from fedpan_exp.report.statistics import SeedStats, seed_stats
from fedpan_exp.report.style import BLUE, GREEN, GREY, ORANGE
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, Table, Value, mean_std

N_SF = "study.N_sf"


def draw(sweep: Sweep) -> FigureResult:
    """Dotted lines: FL by alpha. Dots: shuffled clients at the largest alpha. Last panel: kept ratio by N_sf."""
    runs = measured(sweep.of("federate", "shuffle_federate"))
    panels = panels_of(runs, ("dataset",))
    counted = [run for run in (sweep.of("kept_ratio") or sweep.all_runs) if run.complete and "N_sf" in run.columns]
    figure, axes = grid(1, len(panels) + bool(counted), 3.8, 3.0)
    rows: list[list[Value]] = []
    findings: dict[str, MeanStd | str] = {}
    for panel, (title, group) in zip(axes.flat, panels.items(), strict=False):
        rows += _panel(panel, group, title, findings)
        panel.set_title(title, fontsize=9)
    if counted:
        for row in draw_kept_ratio(axes.flat[-1], counted[:1]):
            rows.append(["neurons kept", str(row[1]), row[2]])
            if isinstance(row[2], MeanStd):
                findings[f"kept {row[1]}"] = row[2]
    return FigureResult(figure, Table(["panel", "setting", "accuracy or kept (%)"], rows), findings)


def _panel(axes: Axes, runs: Sequence[Run], title: str, findings: dict[str, MeanStd | str]) -> list[list[Value]]:
    levels = {
        alpha: seed_stats([run for run in runs if not run.setting(N_SF) and run.setting("fl_scene.alpha") == alpha])
        for alpha in values_of(runs, "fl_scene.alpha")
    }
    shuffled = {
        N_sf: seed_stats([run for run in runs if run.setting(N_SF) == N_sf]) for N_sf in values_of(runs, N_SF) if N_sf
    }
    for colour, (alpha, cell) in zip((ORANGE, GREEN, BLUE, GREY), levels.items(), strict=False):
        if cell.mean is not None:
            axes.axhline(100 * cell.mean, linestyle=":", color=colour, linewidth=1.6, label=f"alpha={show(alpha)}")
    points = [(N_sf, cell) for N_sf, cell in shuffled.items() if cell.mean is not None]
    if points:
        heights, deviations = zip(*((100 * (c.mean or 0), 100 * (c.deviation or 0)) for _, c in points), strict=True)
        axes.errorbar(
            [N_sf for N_sf, _ in points], heights, deviations if any(deviations) else None, fmt="o", color="#B22222",
            markersize=4.5, capsize=2, label="shuffled",
        )  # fmt: skip
    axes.set(xlabel="$N_{sf}$", ylabel="accuracy (%)")
    axes.legend(frameon=False, fontsize=7)
    lowest = min((alpha for alpha, cell in levels.items() if cell.mean is not None), default=None)
    if (
        lowest is not None and 0.2 in shuffled and (title == "cifar10" or "drop" not in findings)
    ):  # the paper has cifar10
        findings["drop"] = _difference(shuffled[0.2], levels[lowest], title)
    rows: list[list[Value]] = [
        [title, f"alpha={show(alpha)}", mean_std(cell)] for alpha, cell in levels.items() if cell.n
    ]
    return rows + [[title, f"N_sf={show(N_sf)}", mean_std(cell)] for N_sf, cell in shuffled.items()]


def _difference(shuffled: SeedStats, noniid: SeedStats, dataset: str) -> MeanStd:
    if shuffled.mean is None or noniid.mean is None:
        return MeanStd(None)
    return MeanStd(100 * (shuffled.mean - noniid.mean), n=min(shuffled.n, noniid.n), remark=dataset, sign=True)
