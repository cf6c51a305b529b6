"""How many neurons keep their position: against P_sf, against N_sf, and one permutation."""

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.figure_result import FigureResult, grid
from fedpan_exp.report.frame import each, records, show
from fedpan_exp.report.style import BLUE, ORANGE, SERIES, save
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd, table
from fedpan_exp.studies.shared.figures import Findings, complete_runs, draw_dots, draw_points
from fedpan_exp.system.atomic_io import read_json


def draw_ratio(axes: Axes, folder: Path, against: str, colour: str, label: str = "") -> dict[str, MeanStd]:
    """The mean ratio, in percent, with the deviation of single draws; returns setting -> mean."""
    lines = records(folder).reindex(columns=["P_sf", "N_sf", "kept", "deviation"])
    lines = lines[lines["N_sf"].isna() == (against == "P_sf")].sort_values(against)  # N_sf: several shuffles
    points = {
        x: MeanStd(100 * kept, 100 * std, digits=1) for x, kept, std in lines[[against, "kept", "deviation"]].to_numpy()
    }
    draw_points(axes, points, colour, label)
    axes.set(xlabel=f"${against[0]}_{{sf}}$", ylabel="$R_{kept}$ (%)", ylim=(0, 104))
    return {f"{against}={x:g}": replace(cell, deviation=None) for x, cell in points.items()}


def draw_example(axes: Axes, folder: Path) -> None:
    permutation = read_json(folder / "order.json")
    order = np.array(permutation.get("order", []), dtype=int)
    if len(order):
        draw_dots(axes, order)
        kept = np.mean(order == np.arange(len(order)))
        axes.set(xlabel="neuron", ylabel="its new position")
        axes.set_title(f"$P_{{sf}}$={permutation['P_sf']:g}: {kept:.1%} kept", fontsize=9)


def draw_run(folder: Path) -> Path | None:
    """metrics.jsonl and order.json -> kept_ratio.png; None for a run without order.json."""
    if not read_json(folder / "order.json") or records(folder).empty:
        return None
    figure, axes = grid(1, 3, 4.0, 3.8)
    once, local, example = axes.flat
    draw_ratio(once, folder, "P_sf", BLUE)
    once.set_title("one shuffle", fontsize=9)
    draw_ratio(local, folder, "N_sf", ORANGE)
    local.set_title("one local training", fontsize=9)
    draw_example(example, folder)
    return save(figure, folder, "kept_ratio")


def draw(sweep: Sweep) -> FigureResult:
    """Left: the ratio of neurons that keep their position, against P_sf. Right: one permutation."""
    runs = complete_runs(sweep, "kept_ratio")
    figure, axes = grid(1, 2, 3.8, 3.2)
    rows = []
    for colour, run in zip(cycle(SERIES), each(runs), strict=False):
        label = f"J={show(run['study.neurons'])}, seed {show(run['seed'])}"
        ratios = draw_ratio(axes[0, 0], run["folder"], "P_sf", colour, label)
        rows += [(run.name, setting, ratio) for setting, ratio in ratios.items()]
    axes[0, 0].legend(frameon=False, fontsize=8)
    draw_example(axes[0, 1], runs["folder"].iloc[0])
    findings: Findings = {setting: ratio for _, setting, ratio in rows}
    return FigureResult(figure, table(["run", "shuffle", "R_kept"], rows), findings)


RUN_PLOTS = (draw_run,)
PAPER_FIGURES = (
    PaperFigure(
        "sf_prob", "Neurons kept by a shuffle", "The kept ratio R_kept falls with P_sf.", draw, order=1,
        claims=(Claim("R_kept at P_sf=0 (%)", 100.0, "P_sf=0"), Claim("R_kept at P_sf=0.1 (%)", "high", "P_sf=0.1")),
    ),
)  # fmt: skip
