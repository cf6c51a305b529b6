"""The shuffle error against A: PAN∘ for several T, and PAN+ against PAN∘."""

from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedpan_exp.report.records import records_with
from fedpan_exp.report.style import BLUE, ORANGE, SHADES, save, tidy
from fedpan_exp.system.atomic_io import read_json

MODES = {"add": ("PAN$_+$", BLUE, 0.25), "mul": (r"PAN$_\circ$", ORANGE, 0.75)}  # the last: largest A of practical use


def draw(folder: Path) -> Path | None:
    """metrics.jsonl and summary.json -> shuffle_error.png; None for a run without errors by mode, A and T."""
    records = records_with(folder, "mode", "A", "T", "error")
    if not records:
        return None
    summary = read_json(folder / "summary.json")
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    mode = "mul" if any(record["mode"] == "mul" for record in records) else "add"
    periods = list(dict.fromkeys(record["T"] for record in records))
    for T, shade in zip(periods, matplotlib.colormaps[SHADES].resampled(len(periods) + 1).colors, strict=False):  # type: ignore[attr-defined]
        _curve(left, _select(records, mode, T), shade, f"T={T:g}")
    left.set_title(f"{MODES[mode][0]}", fontsize=10)
    for mode, (name, colour, practical) in MODES.items():
        first_T = _select(records, mode, periods[0])
        power = summary.get(f"summary/power_{mode}")
        label = name if power is None else rf"{name}, $\sim A^{{{power:.2f}}}$"
        _curve(right, first_T, colour, label)
        _curve(right, [record for record in first_T if record["A"] <= practical], colour, None, linewidth=3.5)
    right.set_title(f"T={periods[0]:g}; in bold: A of practical use", fontsize=10)
    for axes in (left, right):
        tidy(axes)
        axes.set(xlabel="A", ylabel=r"shuffle error $\|h_{sf} - h\| / J_L$")
        axes.legend(frameon=False, fontsize=8)
    return save(figure, folder, "shuffle_error")


def _select(records: list[dict], mode: str, T: float) -> list[dict]:
    return sorted((r for r in records if r["mode"] == mode and r["T"] == T), key=lambda record: record["A"])


def _curve(axes: Axes, records: list[dict], colour: str, label: str | None, linewidth: float = 1.4) -> None:
    if records:
        A, error = ([record[name] for record in records] for name in ("A", "error"))
        axes.plot(A, error, color=colour, label=label, linewidth=linewidth, marker="o", markersize=3)
