"""The paper's tables: our numbers beside the printed ones, drawn as dots on a line."""

from collections.abc import Callable, Mapping, Sequence

from fedpan_exp.report.plots.figure_result import FigureResult, grid
from fedpan_exp.report.plots.lines import RULE, measured
from fedpan_exp.report.runs import Run, show
from fedpan_exp.report.statistics import SeedStats, best_pan, seed_stats
from fedpan_exp.report.style import GREY, OFF, ON
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, Table, Value, gain, mean_std

PAPERS = {"PANs off": "FedAvg", "PANs on": "FedAvg+PANs"}  # what the paper calls ours
Printed = Mapping[str, Mapping[str, float]]  # row -> method -> accuracy in %


def scenes(sweep: Sweep, printed: Printed) -> FigureResult:
    """A row a scene (K, R, alpha, E); ours are FedAvg with PANs off and on."""
    runs = measured(sweep.runs)
    by_scene: dict[str, list[Run]] = {}
    for run in runs:
        by_scene.setdefault(_scene(run), []).append(run)
    rows: list[list[Value]] = []
    found: dict[str, MeanStd | str] = {}
    ours: dict[str, dict[str, SeedStats]] = {}
    methods = list(dict.fromkeys(method for row in printed.values() for method in row))
    for scene, there in by_scene.items():
        point = best_pan(there)
        paper, mark = _nearest(scene, printed)
        found |= {f"{paper} off": mean_std(point.off), f"{paper} on": mean_std(point.on)}
        ours[scene] = {"PANs off": point.off, "PANs on": point.on}
        rows.append(
            [
                f"{scene}{mark}",
                *(printed.get(paper, {}).get(method) for method in methods),
                mean_std(point.off),
                mean_std(point.on),
                point.pan,
                gain(point.gain),
            ]
        )
    columns = ["(K, R, alpha, E)", *(f"{method}, paper" for method in methods)]
    table = Table([*columns, "ours, off (%)", "ours, on (%)", "best PAN", "on - off (points)"], rows)
    notes = [RULE, *(f"{row[0]}" for row in rows if "for the paper's" in str(row[0]))]
    return _plate(ours, {scene: printed.get(_nearest(scene, printed)[0], {}) for scene in ours}, table, found, notes)


def centralized(sweep: Sweep, printed: Printed) -> FigureResult:
    """A row a dataset; columns are optimizers."""
    runs = measured(sweep.runs)
    rows: list[list[Value]] = []
    found: dict[str, MeanStd | str] = {}
    ours: dict[str, dict[str, SeedStats]] = {}
    places = _by(runs, lambda run: (show(run.setting("dataset")), show(run.setting("study.optimizer", "sgd"))))
    for (dataset, optimizer), there in places.items():
        cell = seed_stats(there)
        ours.setdefault(dataset, {})[optimizer] = cell
        found[f"{dataset} {optimizer}"] = mean_std(cell)
        paper = printed.get(dataset, {}).get(optimizer)
        difference = MeanStd(None if cell.mean is None or paper is None else cell.mean * 100 - paper, sign=True)
        network = ", ".join(dict.fromkeys(show(run.setting("model")) for run in there))
        rows.append([dataset, network, optimizer, paper, mean_std(cell), difference])
    table = Table(["dataset", "network", "optimizer", "paper (%)", "ours (%)", "ours - paper"], rows)
    return _plate(ours, {dataset: printed.get(dataset, {}) for dataset in ours}, table, found, [])


def _plate(
    ours: dict[str, dict[str, SeedStats]],
    printed: Printed,
    table: Table,
    found: dict[str, MeanStd | str],
    notes: list[str],
) -> FigureResult:
    """Ours are filled, the paper's are hollow; methods that only the paper has are ticks with a name."""
    figure, axes = grid(1, 1, 7.5, max(2.4, 0.6 * len(ours) + 1.2))
    panel = axes[0, 0]
    for y, (name, cells) in enumerate(ours.items()):
        for colour, marker, (label, cell) in zip((OFF, ON), "os", cells.items(), strict=False):
            if cell.mean is not None:
                error = None if cell.deviation is None else 100 * cell.deviation
                panel.errorbar(100 * cell.mean, y + 0.15, xerr=error, fmt=marker, color=colour, capsize=3, label=label)
            value = printed.get(name, {}).get(PAPERS.get(label, label))
            if value is not None:
                panel.plot(value, y - 0.15, marker, color=colour, markerfacecolor="none", label=f"{label}, paper")
        others = {method: v for method, v in printed.get(name, {}).items() if method not in {*PAPERS.values(), *cells}}
        for lift, (method, value) in enumerate(sorted(others.items(), key=lambda item: item[1])):
            panel.plot(value, y - 0.15, "|", color=GREY, markersize=9)
            panel.annotate(method, (value, y - 0.26 - 0.14 * (lift % 2)), ha="center", fontsize=7, color=GREY)
    panel.set_yticks(range(len(ours)), list(ours), fontsize=8)
    panel.set(xlabel="accuracy (%)", ylim=(len(ours) - 0.5, -0.7))
    handles, labels = panel.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure.legend(once.values(), once.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return FigureResult(figure, table, found, notes)


def _scene(run: Run) -> str:
    return f"({', '.join(show(run.setting(f'fl_scene.{letter}')) for letter in ('K', 'R', 'alpha', 'E'))})"


def _nearest(scene: str, printed: Printed) -> tuple[str, str]:
    """The paper's row of the same scene, or of the same K, R and alpha with other epochs, which is said."""
    if scene in printed:
        return scene, ""
    without_epochs = scene.rsplit(",", 1)[0]
    close = [row for row in printed if row.rsplit(",", 1)[0] == without_epochs]
    return (close[0], f" for the paper's {close[0]}") if close else (scene, " is no scene of the paper")


def _by(runs: Sequence[Run], place: Callable[[Run], tuple[str, str]]) -> dict[tuple[str, str], list[Run]]:
    places: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        places.setdefault(place(run), []).append(run)
    return places
