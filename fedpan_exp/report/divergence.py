"""Weight divergence and gradient variance of the clients, one bar per layer."""

from pathlib import Path

from matplotlib.figure import Figure

from fedpan_exp.report.style import BLUE, ORANGE, save, tidy
from fedpan_exp.system.atomic_io import read_json

KINDS = {  # of a probe: title, unit, colour
    "divergence": ("weight divergence", "mean distance from the mean weights", BLUE),
    "gradient_variance": ("gradient variance", "variance over clients", ORANGE),
}


def draw(folder: Path) -> Path | None:
    """summary.json -> divergence.png; None if the run was not probed."""
    summary = read_json(folder / "summary.json")
    bars = {kind: _per_layer(summary, kind) for kind in KINDS}
    shown = {kind: values for kind, values in bars.items() if values}
    if not shown:
        return None
    layers = max(map(len, shown.values()))
    figure = Figure(figsize=(len(shown) * max(4.5, 0.3 * layers + 1.5), 3.6), layout="constrained")
    for axes, (kind, values) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown.items(), strict=True):
        title, unit, colour = KINDS[kind]
        axes.bar(list(values), list(values.values()), color=colour, width=0.7)
        axes.set_title(title, fontsize=10)
        axes.set_ylabel(unit, fontsize=8)
        axes.tick_params(axis="x", rotation=90 if layers > 8 else 0)
        axes.set_axisbelow(True)
        tidy(axes)
    return save(figure, folder, "divergence")


def _per_layer(summary: dict[str, float], kind: str) -> dict[str, float]:
    prefix = f"summary/{kind}/"
    return {name.removeprefix(prefix): value for name, value in summary.items() if name.startswith(prefix)}
