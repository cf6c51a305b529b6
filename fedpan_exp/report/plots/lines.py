"""Accuracy against a swept setting: PANs off and on, or one line a kind of PAN."""

from collections import Counter
from collections.abc import Sequence

from matplotlib.axes import Axes

from fedpan_exp.report.pairing import Paired, paired
from fedpan_exp.report.plots.figure_result import FigureResult, NoData, grid, key_below, panels_of, values_of
from fedpan_exp.report.runs import SIGNS, VALUE, Run, show
from fedpan_exp.report.statistics import Choice, SeedStats, best_pan, seed_stats
from fedpan_exp.report.style import GREEN, OFF, ON
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, Table, Value, gain, mean_std

COLUMNS = 5
ACCURACY = "accuracy (%)"
COLOURS = {"add": GREEN, "mul": ON}
RULE = (
    "best PAN: highest mean of the last five rounds over the seeds that off and all PANs of the cell share; chosen and "
    "measured on the same runs, which flatters it where several were tried"
)


def measured(runs: Sequence[Run]) -> list[Run]:
    """Whole runs with an accuracy, and those that will have one or failed to."""
    found = [run for run in runs if run.number(VALUE) is not None or not run.whole]
    if not any(run.whole for run in found):
        raise NoData("none of its runs has come to an accuracy yet")
    return found


def off_on(sweep: Sweep, settings: Sequence[str]) -> FigureResult:
    """Panels by dataset and algorithm for each of the settings, the others of them held at their usual value."""
    runs = measured(sweep.runs)
    parts = [
        (setting, held, title, there)
        for setting in settings
        for held, kept in [hold(runs, setting, settings)]
        for title, there in panels_of(kept, ("dataset", "algorithm")).items()
    ]
    columns = min(COLUMNS, -(-len(parts) // len(settings)))
    figure, axes = grid(-(-len(parts) // columns), columns, 3.4 if columns < 4 else 2.3, 2.4)
    rows: list[list[Value]] = []
    gains: dict[str, list[float]] = {}
    for panel, (setting, held, title, there) in zip(axes.flat, parts, strict=False):
        short = setting.split(".")[-1]
        values = values_of(there, setting)
        points = [best_pan([run for run in there if run.setting(setting) == value]) for value in values]
        draw_points(panel, values, [point.off for point in points], OFF, "PANs off", "o", "--")
        draw_points(panel, values, [point.on for point in points], ON, "PANs on", "s")
        panel.set_title(title + held, fontsize=9)
        panel.set(xlabel=short, ylabel=ACCURACY)
        rows += [row_of(f"{title}{held}", f"{short}={show(v)}", point) for v, point in zip(values, points, strict=True)]
        for value, point in zip(values, points, strict=True):
            gains.setdefault(f"{short}={show(value)}", []).extend(point.gain.differences if point.gain else [])
    for panel in list(axes.flat)[len(parts) :]:
        panel.set_visible(False)
    key_below(figure, axes.flat[0])
    table = Table(["panel", "setting", "PANs off (%)", "best PAN", "PANs on (%)", "on - off (points)", "pairs"], rows)
    return FigureResult(figure, table, findings(gains), [RULE] if any(_tried(runs)) else [])


def findings(gains: dict[str, list[float]]) -> dict[str, MeanStd | str]:
    """`gain` over all pairs; `gains` for each value of the setting."""
    everything = [difference for found in gains.values() for difference in found]
    each = {place: gain(Paired(tuple(found))) for place, found in gains.items() if found}
    return {
        "gain": gain(Paired(tuple(everything)) if everything else None),
        "gains": ", ".join(f"{place}: {found.mean:+.2f}" for place, found in each.items()) or "–",
    }


def row_of(panel: str, setting: str, point: Choice) -> list[Value]:
    pairs = point.gain.n if point.gain else 0
    return [panel, setting, mean_std(point.off), point.pan, mean_std(point.on), gain(point.gain), pairs]


def pan_against(sweep: Sweep, settings: Sequence[str]) -> FigureResult:
    """A line for PAN+ and one for PAN∘ against each of pan.A and pan.T; PANs off is level."""
    runs = measured(sweep.runs)
    panels = [(setting, *item) for item in panels_of(runs, ("dataset",)).items() for setting in settings]
    figure, axes = grid(-(-len(panels) // 2) if len(panels) > 3 else 1, 2 if len(panels) > 3 else len(panels), 3.8)
    rows: list[list[Value]] = []
    found: dict[str, MeanStd | str] = {}
    for panel, (setting, title, there) in zip(axes.flat, panels, strict=False):
        panel.set_title(title, fontsize=9)
        rows += draw_pans(panel, there, setting, settings, title, found)
    for panel in list(axes.flat)[len(panels) :]:
        panel.set_visible(False)
    key_below(figure, axes.flat[0])
    return FigureResult(
        figure, Table(["panel", "PAN", "setting", "accuracy (%)", "on - off (points)", "pairs"], rows), found
    )


def draw_pans(
    axes: Axes, runs: Sequence[Run], setting: str, settings: Sequence[str], title: str, found: dict[str, MeanStd | str]
) -> list[list[Value]]:
    """Returns rows of the table; `found` gets the best value and the spread of each line."""
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
        there = [run for run in runs if not run.is_off and run.setting("pan.mode") == mode]
        if not there:
            continue
        held, kept = hold(there, setting, settings)
        at = {value: [run for run in kept if run.setting(setting) == value] for value in values_of(kept, setting)}
        cells = {value: seed_stats(found_there) for value, found_there in at.items()}
        draw_points(axes, ticks, [cells.get(tick, SeedStats()) for tick in ticks], COLOURS[mode], SIGNS[mode], "s")
        for value, cell in cells.items():
            difference = paired([*at[value], *baseline])
            place = f"{short}={show(value)}{held}"
            rows.append([title, SIGNS[mode], place, mean_std(cell), gain(difference), difference.n])
        means = {value: cell.mean * 100 for value, cell in cells.items() if cell.mean is not None}
        if means:
            best = max(means, key=lambda value: means[value])
            found[f"best {mode} {short}"] = f"{show(best)} ({means[best]:.2f}%)"
            found[f"spread {mode} {short}"] = f"{max(means.values()) - min(means.values()):.2f} points"
    axes.set(xlabel=short, ylabel=ACCURACY)
    return rows


def draw_points(
    axes: Axes, ticks: Sequence, cells: Sequence[SeedStats], colour: str, label: str, marker: str, line: str = "-"
) -> None:
    """Values stand at even distances, as on the paper's axes; a point with runs left out is hollow."""
    there = [(x, cell) for x, cell in enumerate(cells) if cell.mean is not None]
    axes.set_xticks(range(len(ticks)), [show(tick) for tick in ticks], fontsize=8)
    if not there:
        return
    positions, heights = [x for x, _ in there], [(cell.mean or 0) * 100 for _, cell in there]
    deviations = [(cell.deviation or 0) * 100 for _, cell in there]
    axes.errorbar(
        positions, heights, deviations if any(deviations) else None, color=colour, label=label, linestyle=line,
        linewidth=1.5, marker=marker, markersize=4.5, capsize=2.5,
    )  # fmt: skip
    hollow = [(x, y) for x, y, (_, cell) in zip(positions, heights, there, strict=True) if cell.left_out]
    if hollow:
        axes.plot(*zip(*hollow, strict=True), marker, color=colour, markerfacecolor="white", markersize=5.5, zorder=5)
    axes.margins(x=0.12)


def hold(runs: Sequence[Run], setting: str, settings: Sequence[str]) -> tuple[str, list[Run]]:
    """Runs in which the other settings have the value that most runs have, and a word on it where they differ."""
    words, kept = "", list(runs)
    for other in (name for name in settings if name != setting):
        counts = Counter(run.setting(other) for run in kept)
        if len(counts) > 1:
            usual = counts.most_common(1)[0][0]
            kept = [run for run in kept if run.setting(other) == usual]
            words += f", {other.split('.')[-1]}={show(usual)}"
    return words, kept


def _tried(runs: Sequence[Run]) -> list[bool]:
    """Whether more than one PAN competes anywhere."""
    pans: dict[str, set[str]] = {}
    for run in runs:
        if not run.is_off:
            pans.setdefault(run.key("pan", "seed"), set()).add(run.pan)
    return [len(found) > 1 for found in pans.values()]
