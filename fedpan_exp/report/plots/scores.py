"""The paper's tables: our numbers next to the printed ones, drawn as dots on a line."""

from collections.abc import Callable, Mapping, Sequence

from fedpan_exp.report.plots.figure_result import FigureResult, grid
from fedpan_exp.report.plots.lines import RULE, measured
from fedpan_exp.report.runs import Run, show
from fedpan_exp.report.statistics import SeedStats, best_pan, seed_stats
from fedpan_exp.report.style import GREY, OFF, ON
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, Table, Value, gain, mean_std

PAPERS = {"PANs off": "FedAvg", "PANs on": "FedAvg+PANs"}  # our labels -> the paper's names
Printed = Mapping[str, Mapping[str, float]]  # row -> method -> accuracy in %


def scenes(sweep: Sweep, printed: Printed) -> FigureResult:
    """One row per scene (K, R, alpha, E); ours are FedAvg with PANs off and on."""
    runs = measured(sweep.runs)
    by_scene: dict[str, list[Run]] = {}
    for run in runs:
        by_scene.setdefault(_scene(run), []).append(run)
    rows: list[list[Value]] = []
    findings: dict[str, MeanStd | str] = {}
    ours: dict[str, dict[str, SeedStats]] = {}
    methods = list(dict.fromkeys(method for row in printed.values() for method in row))
    for scene, group in by_scene.items():
        point = best_pan(group)
        paper, remark = _nearest(scene, printed)
        findings |= {f"{paper} off": mean_std(point.off), f"{paper} on": mean_std(point.on)}
        ours[scene] = {"PANs off": point.off, "PANs on": point.on}
        rows.append(
            [
                f"{scene}{remark}",
                *(printed.get(paper, {}).get(method) for method in methods),
                mean_std(point.off),
                mean_std(point.on),
                point.pan,
                gain(point.gain),
            ]
        )
    columns = ["(K, R, alpha, E)", *(f"{method}, paper" for method in methods)]
    table = Table([*columns, "ours, off (%)", "ours, on (%)", "best PAN", "on - off (points)"], rows)
    footnotes = [RULE, *(f"{row[0]}" for row in rows if "for the paper's" in str(row[0]))]
    return _figure_result(
        ours, {scene: printed.get(_nearest(scene, printed)[0], {}) for scene in ours}, table, findings, footnotes
    )


def centralized(sweep: Sweep, printed: Printed) -> FigureResult:
    """One row per dataset and optimizer."""
    runs = measured(sweep.runs)
    rows: list[list[Value]] = []
    findings: dict[str, MeanStd | str] = {}
    ours: dict[str, dict[str, SeedStats]] = {}
    groups = _group(runs, lambda run: (show(run.setting("dataset")), show(run.setting("study.optimizer", "sgd"))))
    for (dataset, optimizer), group in groups.items():
        cell = seed_stats(group)
        ours.setdefault(dataset, {})[optimizer] = cell
        findings[f"{dataset} {optimizer}"] = mean_std(cell)
        paper = printed.get(dataset, {}).get(optimizer)
        difference = MeanStd(None if cell.mean is None or paper is None else cell.mean * 100 - paper, sign=True)
        network = ", ".join(dict.fromkeys(show(run.setting("model")) for run in group))
        rows.append([dataset, network, optimizer, paper, mean_std(cell), difference])
    table = Table(["dataset", "network", "optimizer", "paper (%)", "ours (%)", "ours - paper"], rows)
    return _figure_result(ours, {dataset: printed.get(dataset, {}) for dataset in ours}, table, findings, [])


def _figure_result(
    ours: dict[str, dict[str, SeedStats]],
    printed: Printed,
    table: Table,
    findings: dict[str, MeanStd | str],
    footnotes: list[str],
) -> FigureResult:
    """Our results are filled, the paper's are hollow; methods that only the paper has are labelled ticks."""
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
    return FigureResult(figure, table, findings, footnotes)


def _scene(run: Run) -> str:
    return f"({', '.join(show(run.setting(f'fl_scene.{letter}')) for letter in ('K', 'R', 'alpha', 'E'))})"


def _nearest(scene: str, printed: Printed) -> tuple[str, str]:
    """The paper's row of the same scene, or of one that differs only in E; and a remark unless it is the same."""
    if scene in printed:
        return scene, ""
    without_epochs = scene.rsplit(",", 1)[0]
    close = [row for row in printed if row.rsplit(",", 1)[0] == without_epochs]
    return (close[0], f" for the paper's {close[0]}") if close else (scene, " is no scene of the paper")


def _group(runs: Sequence[Run], key: Callable[[Run], tuple[str, str]]) -> dict[tuple[str, str], list[Run]]:
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups
