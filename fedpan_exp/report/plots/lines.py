"""Accuracy against a swept setting: PANs off and on, or one line per kind of PAN."""

from collections import Counter
from collections.abc import Sequence

from matplotlib.axes import Axes

from fedpan_exp.report.pairing import Paired, paired
from fedpan_exp.report.plots.figure_result import FigureResult, NoData, grid, legend_below, panels_of, values_of
from fedpan_exp.report.runs import PAN_NAMES, VALUE, Run, show
from fedpan_exp.report.statistics import BestPan, SeedStats, best_pan, seed_stats
from fedpan_exp.report.style import GREEN, OFF, ON
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, Table, Value, gain, mean_std

COLUMNS = 5
ACCURACY = "accuracy (%)"
COLOURS = {"add": GREEN, "mul": ON}
RULE = (
    "best PAN: highest mean of the last five rounds over the seeds that off and all PANs of the cell share; selected "
    "and measured on the same runs, which is optimistic where several were tried"
)


def measured(runs: Sequence[Run]) -> list[Run]:
    """Complete runs with an accuracy, and incomplete runs, which are counted as left out."""
    relevant = [run for run in runs if run.number(VALUE) is not None or not run.complete]
    if not any(run.complete for run in relevant):
        raise NoData("no run of this sweep has an accuracy yet")
    return relevant


def off_on(sweep: Sweep, settings: Sequence[str]) -> FigureResult:
    """Panels by dataset and algorithm for each setting, with the other settings fixed at their most common value."""
    runs = measured(sweep.runs)
    parts = [
        (setting, fixed, title, group)
        for setting in settings
        for fixed, selected in [fix_others(runs, setting, settings)]
        for title, group in panels_of(selected, ("dataset", "algorithm")).items()
    ]
    columns = min(COLUMNS, -(-len(parts) // len(settings)))
    figure, axes = grid(-(-len(parts) // columns), columns, 3.4 if columns < 4 else 2.3, 2.4)
    rows: list[list[Value]] = []
    gains: dict[str, list[float]] = {}
    for panel, (setting, fixed, title, group) in zip(axes.flat, parts, strict=False):
        short = setting.split(".")[-1]
        values = values_of(group, setting)
        points = [best_pan([run for run in group if run.setting(setting) == value]) for value in values]
        draw_points(panel, values, [point.off for point in points], OFF, "PANs off", "o", "--")
        draw_points(panel, values, [point.on for point in points], ON, "PANs on", "s")
        panel.set_title(title + fixed, fontsize=9)
        panel.set(xlabel=short, ylabel=ACCURACY)
        rows += [
            row_of(f"{title}{fixed}", f"{short}={show(v)}", point) for v, point in zip(values, points, strict=True)
        ]
        for value, point in zip(values, points, strict=True):
            gains.setdefault(f"{short}={show(value)}", []).extend(point.gain.differences if point.gain else [])
    for panel in list(axes.flat)[len(parts) :]:
        panel.set_visible(False)
    legend_below(figure, axes.flat[0])
    table = Table(["panel", "setting", "PANs off (%)", "best PAN", "PANs on (%)", "on - off (points)", "pairs"], rows)
    return FigureResult(figure, table, gain_findings(gains), [RULE] if _several_tried(runs) else [])


def gain_findings(gains: dict[str, list[float]]) -> dict[str, MeanStd | str]:
    """`gain` over all pairs, and `gains` per value of the setting."""
    everything = [difference for differences in gains.values() for difference in differences]
    each = {value: gain(Paired(tuple(differences))) for value, differences in gains.items() if differences}
    return {
        "gain": gain(Paired(tuple(everything)) if everything else None),
        "gains": ", ".join(f"{value}: {amount.mean:+.2f}" for value, amount in each.items()) or "–",
    }


def row_of(panel: str, setting: str, point: BestPan) -> list[Value]:
    pairs = point.gain.n if point.gain else 0
    return [panel, setting, mean_std(point.off), point.pan, mean_std(point.on), gain(point.gain), pairs]


def pan_against(sweep: Sweep, settings: Sequence[str]) -> FigureResult:
    """PAN+ and PAN∘ against each of the settings (pan.A, pan.T), with PANs off as a horizontal line."""
    runs = measured(sweep.runs)
    panels = [(setting, *item) for item in panels_of(runs, ("dataset",)).items() for setting in settings]
    figure, axes = grid(-(-len(panels) // 2) if len(panels) > 3 else 1, 2 if len(panels) > 3 else len(panels), 3.8)
    rows: list[list[Value]] = []
    findings: dict[str, MeanStd | str] = {}
    for panel, (setting, title, group) in zip(axes.flat, panels, strict=False):
        panel.set_title(title, fontsize=9)
        rows += draw_pans(panel, group, setting, settings, title, findings)
    for panel in list(axes.flat)[len(panels) :]:
        panel.set_visible(False)
    legend_below(figure, axes.flat[0])
    return FigureResult(
        figure, Table(["panel", "PAN", "setting", "accuracy (%)", "on - off (points)", "pairs"], rows), findings
    )


def draw_pans(
    axes: Axes,
    runs: Sequence[Run],
    setting: str,
    settings: Sequence[str],
    title: str,
    findings: dict[str, MeanStd | str],
) -> list[list[Value]]:
    """Return the rows of the table; add the best value and the spread of each line to `findings`."""
    short = setting.split(".")[-1]
    baseline = [run for run in runs if run.is_off]
    rows: list[list[Value]] = []
    if baseline:
        level = seed_stats(baseline)
        rows.append([title, "off", "", mean_std(level), MeanStd(None, n=0), 0])
        if level.mean is not None:
            axes.axhline(level.mean * 100, color=OFF, linestyle="--", linewidth=1.2, label="PANs off")
    ticks = [value for value in values_of(runs, setting) if value]
    for mode in ("add", "mul"):
        group = [run for run in runs if not run.is_off and run.setting("pan.mode") == mode]
        if not group:
            continue
        fixed, selected = fix_others(group, setting, settings)
        by_value = {
            value: [run for run in selected if run.setting(setting) == value] for value in values_of(selected, setting)
        }
        cells = {value: seed_stats(runs_at) for value, runs_at in by_value.items()}
        draw_points(axes, ticks, [cells.get(tick, SeedStats()) for tick in ticks], COLOURS[mode], PAN_NAMES[mode], "s")
        for value, cell in cells.items():
            difference = paired([*by_value[value], *baseline])
            label = f"{short}={show(value)}{fixed}"
            rows.append([title, PAN_NAMES[mode], label, mean_std(cell), gain(difference), difference.n])
        means = {value: cell.mean * 100 for value, cell in cells.items() if cell.mean is not None}
        if means:
            best = max(means, key=lambda value: means[value])
            findings[f"best {mode} {short}"] = f"{show(best)} ({means[best]:.2f}%)"
            findings[f"spread {mode} {short}"] = f"{max(means.values()) - min(means.values()):.2f} points"
    axes.set(xlabel=short, ylabel=ACCURACY)
    return rows


def draw_points(
    axes: Axes, ticks: Sequence, cells: Sequence[SeedStats], colour: str, label: str, marker: str, line: str = "-"
) -> None:
    """Evenly spaced values, as on the paper's axes; a point with runs left out is hollow."""
    points = [(x, cell) for x, cell in enumerate(cells) if cell.mean is not None]
    axes.set_xticks(range(len(ticks)), [show(tick) for tick in ticks], fontsize=8)
    if not points:
        return
    positions, heights = [x for x, _ in points], [(cell.mean or 0) * 100 for _, cell in points]
    deviations = [(cell.deviation or 0) * 100 for _, cell in points]
    axes.errorbar(
        positions, heights, deviations if any(deviations) else None, color=colour, label=label, linestyle=line,
        linewidth=1.5, marker=marker, markersize=4.5, capsize=2.5,
    )  # fmt: skip
    hollow = [(x, y) for x, y, (_, cell) in zip(positions, heights, points, strict=True) if cell.left_out]
    if hollow:
        axes.plot(*zip(*hollow, strict=True), marker, color=colour, markerfacecolor="white", markersize=5.5, zorder=5)
    axes.margins(x=0.12)


def fix_others(runs: Sequence[Run], setting: str, settings: Sequence[str]) -> tuple[str, list[Run]]:
    """The runs in which the other settings have their most common value, and a label of the values thus fixed."""
    label, selected = "", list(runs)
    for other in (name for name in settings if name != setting):
        counts = Counter(run.setting(other) for run in selected)
        if len(counts) > 1:
            usual = counts.most_common(1)[0][0]
            selected = [run for run in selected if run.setting(other) == usual]
            label += f", {other.split('.')[-1]}={show(usual)}"
    return label, selected


def _several_tried(runs: Sequence[Run]) -> bool:
    """Whether any setting was run with more than one PAN."""
    pans: dict[str, set[str]] = {}
    for run in runs:
        if not run.is_off:
            pans.setdefault(run.key("pan", "seed"), set()).add(run.pan)
    return any(len(tried) > 1 for tried in pans.values())
