"""Weight divergence and gradient variance of the clients, one bar per layer with PANs off and on."""

from operator import attrgetter

import pandas as pd

from fedpan_exp.report.figure import FigureResult, NoData, legend_below, panels, panels_of
from fedpan_exp.report.statistics import seed_stats
from fedpan_exp.report.style import OFF, ON

MEASURES = {"summary/divergence/": "weight divergence", "summary/gradient_variance/": "gradient variance"}
COLOURS = {"PANs off": OFF, "PANs on": ON}


def draw(runs: pd.DataFrame) -> FigureResult:
    """Rows are measures, columns are values of alpha."""
    rows = [
        {"measure": measure, "panel": f"alpha={title}", "layer": name.removeprefix(prefix)}
        | {f"PANs {pans}": seed_stats(group[group["pans"] == pans], name, 1, 4) for pans in ("off", "on")}
        for prefix, measure in MEASURES.items()
        for title, group in panels_of(runs, ("fl_scene.alpha", "dataset")).items()
        for name in group.dropna(axis=1, how="all").filter(regex=f"^{prefix}")
    ]
    if not rows or not runs["complete"].any():
        raise NoData("no run of this sweep has measured a divergence yet")
    table = pd.DataFrame(rows)
    means, deviations = (table[[*COLOURS]].map(attrgetter(name)) for name in ("mean", "deviation"))
    change = means["PANs on"] / means["PANs off"] - 1
    table["change"] = change.map("{:+.0%}".format, na_action="ignore")
    parts = table.groupby(["measure", "panel"], sort=False)
    figure, axes = panels([panel for (_, panel), _ in parts], size=(3.8, 2.6), columns=max(2, table["panel"].nunique()))
    for panel, ((measure, _), part) in zip(axes, parts, strict=True):
        bars = means.loc[part.index].set_index(part["layer"]).dropna(axis=1, how="all")
        errors = deviations.loc[part.index].set_index(part["layer"])[bars.columns]
        style = {"color": COLOURS, "width": 0.8, "capsize": 2, "legend": False, "fontsize": 8}
        if bars.empty:  # no run is complete, or they differ in more than their seed, as the table says
            continue
        bars.plot.bar(ax=panel, yerr=errors, rot=45 if len(part) > 5 else 0, xlabel="", ylabel=measure, **style)
    legend_below(figure, axes[0])
    lower = (change.dropna() < 0).groupby(table["measure"], sort=False).agg(["sum", "count"])
    finding = "; ".join(f"{measure} in {row['sum']} of {row['count']}" for measure, row in lower.iterrows())
    return FigureResult(figure, table, {"lower": finding})


RUN_PLOTS = {"divergence": draw}
