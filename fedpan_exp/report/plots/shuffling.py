"""The effect of a shuffle: kept neurons, errors of a network's output, accuracies of shuffled networks."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from fedpan_exp.report.plots.figure_result import FigureResult, NoData, grid, panels_of
from fedpan_exp.report.plots.neurons import draw_matching
from fedpan_exp.report.runs import PAN_NAMES, Run, show
from fedpan_exp.report.statistics import seed_stats
from fedpan_exp.report.style import BLUE, GREEN, MARKERS, ON, SERIES
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, Table, Value, mean_std
from fedpan_exp.system.atomic_io import read_json


def complete_runs(sweep: Sweep, study: str) -> list[Run]:
    complete = [run for run in sweep.of(study) if run.complete and run.columns]
    if not complete:
        raise NoData(f"no run of study={study} in this sweep is complete yet")
    return complete


def kept_ratio(sweep: Sweep) -> FigureResult:
    """Left: the ratio of neurons that keep their position, against P_sf. Right: one permutation."""
    runs = complete_runs(sweep, "kept_ratio")
    figure, axes = grid(1, 2, 3.8, 3.2)
    left, right = axes.flat
    rows: list[list[Value]] = []
    for run, colour in zip(runs, SERIES, strict=False):
        J = show(run.setting("study.neurons", "?"))
        rows += _draw_ratio(left, run, "P_sf", colour, f"J={J}, seed {run.seed}")
    left.set(xlabel="$P_{sf}$", ylabel="$R_{kept}$", ylim=(0, 1.04))
    left.legend(frameon=False, fontsize=8)
    permutation = read_json(runs[0].entry.folder / "order.json")
    order = np.array(permutation.get("order", []), dtype=int)
    if len(order):
        draw_matching(right, order)
        right.set(xlabel="after", ylabel="before")
        right.set_title(
            f"$P_{{sf}}$={permutation.get('P_sf')}, kept {np.mean(order == np.arange(len(order))):.3f}", fontsize=9
        )
    findings = {str(row[1]): row[2] for row in rows if isinstance(row[2], MeanStd)}
    return FigureResult(figure, Table(["run", "shuffle", "R_kept"], rows), dict(findings))


def draw_kept_ratio(axes: Axes, runs: Sequence[Run]) -> list[list[Value]]:
    """R_kept against N_sf, after all shuffles of one local training."""
    rows: list[list[Value]] = []
    for run in runs:
        rows += _draw_ratio(axes, run, "N_sf", BLUE, f"seed {run.seed}")
    axes.set(xlabel="$N_{sf}$", ylabel="$R_{kept}$")
    return rows


def shuffle_error(sweep: Sweep) -> FigureResult:
    """Left: the error of PAN∘ against A, one line per T. Right: PAN+ and PAN∘ at the first T, as the fitted powers."""
    run = complete_runs(sweep, "shuffle_error")[0]
    modes, A, T, error, deviation = (run.columns.get(name) for name in ("mode", "A", "T", "error", "deviation"))
    if modes is None or A is None or T is None or error is None:
        raise NoData("the run has no shuffle errors in metrics.jsonl")
    spread = np.full(len(A), np.nan) if deviation is None else deviation
    figure, axes = grid(1, 2, 3.8, 3.0)
    left, right = axes.flat
    for colour, marker, period in zip([*SERIES] * 9, MARKERS * 9, np.unique(T[modes == "mul"]), strict=False):
        mask = (modes == "mul") & (period == T)
        left.plot(A[mask], error[mask], color=colour, marker=marker, markersize=3.5, label=f"T={period:g}")
    for mode, colour in (("add", GREEN), ("mul", ON)):
        mask = (modes == mode) & (T[0] == T)
        right.errorbar(
            A[mask], error[mask], np.nan_to_num(spread[mask]), color=colour, marker="s", markersize=3.5,
            capsize=2, label=f"{PAN_NAMES[mode]}, T={T[0]:g}",
        )  # fmt: skip
    for panel in (left, right):
        panel.set(xlabel="A", ylabel="shuffle error")
        panel.legend(frameon=False, fontsize=8)
    left.set_title(f"PAN∘, {run.setting('model')}", fontsize=9)
    rows: list[list[Value]] = [
        [
            PAN_NAMES.get(str(m), str(m)),
            float(a),
            float(t),
            MeanStd(float(e), None if np.isnan(s) else float(s), digits=5),
        ]
        for m, a, t, e, s in zip(modes, A, T, error, spread, strict=True)
    ]
    powers = {mode: run.number(f"summary/power_{mode}") for mode in ("add", "mul")}
    findings: dict[str, MeanStd | str] = {
        f"power {mode}": MeanStd(power) for mode, power in powers.items() if power is not None
    }
    findings["T"] = _influence_of_T(A[modes == "mul"], T[modes == "mul"], error[modes == "mul"])
    return FigureResult(figure, Table(["PAN", "A", "T", "shuffle error"], rows), findings)


def shuffle_test(sweep: Sweep) -> FigureResult:
    """First panel: accuracy of the trained networks. Then one per dataset: accuracy after shuffling with P_sf."""
    runs = complete_runs(sweep, "shuffle_test")
    panels = panels_of(runs, ("dataset", "model"))
    figure, axes = grid(1, 1 + len(panels), 3.4, 3.0)
    first, *rest = axes.flat
    rows: list[list[Value]] = []
    change = []
    for panel, marker, (title, group) in zip(rest, MARKERS * 9, panels.items(), strict=False):
        by_pan: dict[str, list[Run]] = {}
        for run in sorted(group, key=lambda run: (not run.is_off, run.pan)):
            by_pan.setdefault(run.pan, []).append(run)
        trained = {pan: seed_stats(same, lambda run: run.number("summary/test_acc")) for pan, same in by_pan.items()}
        heights = [np.nan if cell.mean is None else 100 * cell.mean for cell in trained.values()]
        first.plot(list(trained), heights, marker + "-", markersize=4, label=title)
        for colour, (pan, same) in zip([*SERIES] * 9, by_pan.items(), strict=False):
            P_sf, accuracy = same[0].series("test_acc", "P_sf")
            panel.plot(P_sf, 100 * accuracy, color=colour, marker=marker, markersize=3, linewidth=1.2, label=pan)
            rows += [
                [title, pan, mean_std(trained[pan]), p, MeanStd(100 * a)]
                for p, a in zip(P_sf.tolist(), accuracy.tolist(), strict=True)
            ]
            if pan == "off":
                change += [abs(value - accuracy[0]) * 100 for value in accuracy.tolist()]
        panel.set(xlabel="$P_{sf}$", ylabel="accuracy (%)")
        panel.set_title(title, fontsize=9)
        panel.legend(frameon=False, fontsize=6)
    first.set(ylabel="accuracy (%)")
    first.tick_params(axis="x", rotation=90, labelsize=6)
    first.legend(frameon=False, fontsize=7)
    findings: dict[str, MeanStd | str] = {"change off": MeanStd(max(change), n=len(change))} if change else {}
    table = Table(["network", "PAN", "trained (%)", "P_sf", "shuffled (%)"], rows)
    return FigureResult(figure, table, findings, ["curves: the first seed of each PAN"])


def _draw_ratio(axes: Axes, run: Run, against: str, colour: str, label: str) -> list[list[Value]]:
    x, ratio = run.series("kept", against)
    if against == "P_sf" and "N_sf" in run.columns:
        single = np.isnan(run.columns["N_sf"])  # the other lines are of several shuffles
        x, ratio = run.columns["P_sf"][single], run.columns["kept"][single]
    order = np.argsort(x)
    axes.plot(x[order], ratio[order], color=colour, marker="o", markersize=3, label=label)
    return [
        [run.name, f"{against}={value:g}", MeanStd(100 * kept, digits=1)]
        for value, kept in zip(x[order], ratio[order], strict=True)
    ]


def _influence_of_T(A: np.ndarray, T: np.ndarray, error: np.ndarray) -> str:
    """The spread of errors over T at one A, and the spread over A."""
    per_A = [error[a == A] for a in np.unique(A) if a > 0]
    if not per_A or len(np.unique(T)) < 2:
        return "–"
    over_T = max(float(np.max(e) / max(np.min(e), 1e-12)) for e in per_A)
    over_A = float(np.mean(per_A[-1]) / max(np.mean(per_A[0]), 1e-12))
    return f"largest / smallest over T: {over_T:.1f}; over A: {over_A:.1f}"
