"""How many neurons keep their position: against P_sf, against N_sf, and one permutation."""

from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedpan_exp.report.figure import FigureResult, Findings, complete_runs, draw_line, legend, panels
from fedpan_exp.report.frame import each, records, show
from fedpan_exp.report.statistics import MeanStd, mean_std
from fedpan_exp.report.style import SERIES
from fedpan_exp.studies.shared.neurons import draw_dots
from fedpan_exp.system.atomic_io import read_json


def draw_ratio(axes: Axes, folder: Path, against: str, colour: str, label: str = "") -> dict[str, MeanStd]:
    """The mean ratio, in percent, with the deviation of single draws; returns setting -> mean."""
    lines = records(folder).reindex(columns=["P_sf", "N_sf", "kept", "deviation"])
    lines = lines[lines["N_sf"].isna() == (against == "P_sf")].sort_values(against)  # N_sf: several shuffles
    values = lines[[against, "kept", "deviation"]].to_numpy()
    draw_line(axes, {x: MeanStd(100 * kept, 100 * deviation) for x, kept, deviation in values}, colour, label)
    axes.set(xlabel=f"${against[0]}_{{sf}}$", ylabel="$R_{kept}$ (%)", ylim=(0, 104))
    return {f"{against}={x:g}": MeanStd(100 * kept, digits=1) for x, kept, _ in values}


def draw(runs: pd.DataFrame) -> FigureResult:
    """The ratio of neurons that keep their position in one shuffle and in one local training, and a permutation."""
    runs = complete_runs(runs, "kept_ratio", "kept")
    permutation = read_json(runs["folder"].iloc[0] / "order.json")  # which archives do not have
    titles = ["one shuffle", "one local training", *([""] if permutation else [])]
    figure, (once, local, *example) = panels(titles, size=(3.8, 3.4))
    rows = []
    for colour, run in zip(cycle(SERIES), each(runs), strict=False):
        label = f"J={show(run.get('study.neurons'))}, seed {show(run['seed'])}"
        ratios = draw_ratio(once, run["folder"], "P_sf", colour, label)
        ratios |= draw_ratio(local, run["folder"], "N_sf", colour)
        rows += [{"run": run.name, "shuffle": setting, "R_kept": ratio} for setting, ratio in ratios.items()]
    legend(once)
    for axes in example:
        order = np.array(permutation["order"])
        draw_dots(axes, order)
        kept = np.mean(order == np.arange(len(order)))
        axes.set(xlabel="neuron", ylabel="its new position")
        axes.set_title(f"$P_{{sf}}$={permutation['P_sf']:g}: {kept:.1%} kept", fontsize=9)
    table = pd.DataFrame(rows)
    findings: Findings = {
        str(shuffle): mean_std([ratio.mean for ratio in ratios], scale=1, digits=1)
        for shuffle, ratios in table.groupby("shuffle", sort=False)["R_kept"]
    }
    return FigureResult(figure, table, findings)


RUN_PLOTS = {"kept_ratio": draw}
