"""The shuffle error against A: PAN∘ for several T, and PAN+ against PAN∘."""

import numpy as np
import pandas as pd
from matplotlib import colormaps

from fedpan_exp.report.figure import FigureResult, Findings, complete_runs, draw_line, legend, panels
from fedpan_exp.report.frame import PAN_NAMES, column, records
from fedpan_exp.report.statistics import MeanStd, mean_std
from fedpan_exp.report.style import GREEN, ON

MODES = {"add": (GREEN, 0.25), "mul": (ON, 0.75)}  # colour, largest A of practical use


def draw(runs: pd.DataFrame) -> FigureResult:
    """Left: the error of PAN∘ against A, one line per T. Right: both PANs at the first T, with the fitted powers.

    Curves are those of the first seed, powers are means over seeds.
    """
    runs = complete_runs(runs, "shuffle_error", "error")
    lines = records(runs["folder"].iloc[0])
    cells = [MeanStd(line.error, line.deviation, digits=5) for line in lines.itertuples()]
    points = pd.Series(cells, lines.index)
    periods, shown = lines["T"].unique(), "mul" if "mul" in set(lines["mode"]) else "add"
    powers = {mode: mean_std(column(runs, f"summary/power_{mode}").dropna(), scale=1) for mode in MODES}

    def errors(mode: str, T: float) -> dict[float, MeanStd]:
        line = lines[(lines["mode"] == mode) & (lines["T"] == T)].sort_values("A")
        return dict(zip(line["A"], points[line.index], strict=True))

    titles = [PAN_NAMES[shown], f"T={periods[0]:g}; dotted: largest A of practical use"]
    figure, (left, right) = panels(titles, "A", r"shuffle error $\|h_{sf} - h\| / J_L$", (4.4, 3.6))
    for shade, T in zip(colormaps["viridis"](np.linspace(0, 0.9, len(periods))), periods, strict=True):
        draw_line(left, errors(shown, T), shade, f"T={T:g}")
    for mode, (colour, practical) in MODES.items():
        fitted = rf", $\sim A^{{{powers[mode].mean:.2f}}}$" if powers[mode].n else ""
        draw_line(right, errors(mode, periods[0]), colour, PAN_NAMES[mode] + fitted)
        right.axvline(practical, color=colour, linestyle=":", linewidth=1)
    legend(left)
    legend(right)
    table = lines[["A", "T"]].assign(**{"shuffle error": points})
    table.insert(0, "PAN", lines["mode"].map(PAN_NAMES))
    findings: Findings = {f"power {mode}": power for mode, power in powers.items() if power.n}
    findings["T"] = influence_of_T(lines[(lines["mode"] == "mul") & (lines["A"] > 0)])
    footnotes = ["curves: of the first seed; powers: means over seeds"] if len(runs) > 1 else []
    return FigureResult(figure, table, findings, footnotes)


def influence_of_T(lines: pd.DataFrame) -> str:
    """The spread of errors over T at one A, and the spread over A."""
    if lines["T"].nunique() < 2:
        return ""
    errors = lines.groupby("A")["error"]
    over_T = (errors.max() / errors.min().clip(lower=1e-12)).max()
    over_A = errors.mean().iloc[-1] / max(errors.mean().iloc[0], 1e-12)
    return f"largest / smallest over T: {over_T:.1f}; over A: {over_A:.1f}"


RUN_PLOTS = {"shuffle_error": draw}
