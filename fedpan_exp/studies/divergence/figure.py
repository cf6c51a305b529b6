"""Weight divergence and gradient variance of the clients, one bar per layer; across runs with PANs off and on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.figure_result import FigureResult, NoData, grid, legend_below, panels_of
from fedpan_exp.report.statistics import SeedStats, seed_stats
from fedpan_exp.report.style import BLUE, OFF, ON, save
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import mean_std, table
from fedpan_exp.studies.shared.figures import Rows, scene
from fedpan_exp.system.atomic_io import read_json

MEASURES = {"summary/divergence/": "weight divergence", "summary/gradient_variance/": "gradient variance"}


def draw_bars(axes: Axes, layers: Sequence[str], series: Mapping[str, tuple[str, Sequence[SeedStats]]]) -> None:
    """`series`: label -> colour, and the value of each layer."""
    width = 0.8 / len(series)
    for number, (label, (colour, cells)) in enumerate(series.items()):
        positions = np.arange(len(layers)) + (number - (len(series) - 1) / 2) * width
        deviations = [cell.deviation or 0 for cell in cells]
        error = deviations if any(deviations) else None
        heights = [cell.mean or 0 for cell in cells]
        axes.bar(positions, heights, 0.95 * width, color=colour, label=label, yerr=error, capsize=2)
    axes.set_xticks(range(len(layers)), layers, fontsize=8, rotation=45 if len(layers) > 5 else 0)


def draw_run(folder: Path) -> Path | None:
    """summary.json -> divergence.png; None if the run was not probed."""
    summary = read_json(folder / "summary.json")
    measured = {prefix: [name for name in summary if name.startswith(prefix)] for prefix in MEASURES}
    shown = {prefix: names for prefix, names in measured.items() if names}
    if not shown:
        return None
    figure, axes = grid(1, len(shown), max(4.5, 0.3 * max(map(len, shown.values())) + 1.5), 3.6)
    for panel, (prefix, names) in zip(axes.flat, shown.items(), strict=True):
        cells = [SeedStats((summary[name],)) for name in names]
        draw_bars(panel, [name.removeprefix(prefix) for name in names], {"": (BLUE, cells)})
        panel.set_ylabel(MEASURES[prefix])
    return save(figure, folder, "divergence")


def draw(sweep: Sweep) -> FigureResult:
    """Rows are measures, columns are values of alpha."""
    runs = sweep.of("divergence", "federate").dropna(axis=1, how="all")
    measures = {prefix: label for prefix, label in MEASURES.items() if any(name.startswith(prefix) for name in runs)}
    if not runs["complete"].any() or not measures:
        raise NoData("no run of this sweep has measured a divergence yet")
    panels = panels_of(runs, ("fl_scene.alpha", "dataset"))
    figure, axes = grid(len(measures), len(panels), 3.6, 2.4)
    rows: Rows = []
    lower: dict[str, list[bool]] = {label: [] for label in measures.values()}  # per layer and panel, by measure
    for panels_of_measure, (prefix, label) in zip(axes, measures.items(), strict=True):
        for panel, (title, group) in zip(panels_of_measure, panels.items(), strict=True):
            names = list(group.dropna(axis=1, how="all").filter(regex=f"^{prefix}"))
            layers = [name.removeprefix(prefix) for name in names]
            off, on = ([seed_stats(group[group["pans"] == pans], name) for name in names] for pans in ("off", "on"))
            draw_bars(panel, layers, {"PANs off": (OFF, off), "PANs on": (ON, on)})
            panel.set_title(f"alpha={title}", fontsize=9)
            panel.set_ylabel(label)
            for layer, plain, aware in zip(layers, off, on, strict=True):
                text = "–"
                if plain.mean and aware.mean is not None:
                    change = aware.mean / plain.mean - 1
                    lower[label].append(change < 0)
                    text = f"{change:+.0%}"
                rows.append([label, f"alpha={title}", layer, mean_std(plain, 1, 4), mean_std(aware, 1, 4), text])
    legend_below(figure, axes[0, 0])
    finding = "; ".join(f"{label} in {sum(each)} of {len(each)}" for label, each in lower.items())
    columns = ["measure", "panel", "layer", "PANs off", "PANs on", "change"]
    return FigureResult(figure, table(columns, rows), {"lower": finding})


def paper_figure(name: str, dataset: str, model: str, epochs: int) -> PaperFigure:
    title, statement = (
        f"Weight divergence, {model} on {dataset}, E={epochs}",
        "PANs lower the divergence of local weights.",
    )
    settings = {**scene(dataset, K=10, R=1.0, H=20, E=epochs, alpha=(1.0, 0.1)), "model": (model,)}
    claims = (Claim("layers in which PANs lower it, of all alphas", "all", "lower"),)
    return PaperFigure(name, title, statement, draw, settings, claims, order=5)


RUN_PLOTS = (draw_run,)
PAPER_FIGURES = (
    paper_figure("wdiv", "mnist", "mlp", 5),
    paper_figure("wdiv_mnist_20", "mnist", "mlp", 20),
    paper_figure("wdiv_cifar_5", "cifar10", "vgg9", 5),
)
