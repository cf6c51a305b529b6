"""python -m fedpan_exp.misalignment: express the accuracy loss of non-i.i.d. runs as misplaced neurons."""

import argparse
from dataclasses import dataclass
from math import inf, isnan
from pathlib import Path

import pandas as pd

from fedpan_exp.alignment.misalignment import Reading, misplaced_ratio, read
from fedpan_exp.report.figure import panels
from fedpan_exp.report.frame import VALUE, column, key, load
from fedpan_exp.report.statistics import MeanStd, mean_std, measured
from fedpan_exp.studies.shuffle_federate.figure import draw_cost
from fedpan_exp.system.atomic_io import atomic_write
from fedpan_exp.system.console import console, exit_on_error, plain_table
from fedpan_exp.system.errors import UserError
from fedpan_exp.system.rng import numpy_rng, rng

EXAMPLES = """\
It needs study=shuffle_federate runs with several N_sf on nearly i.i.d. data, and study=federate runs that differ from
them only in alpha. A study=federate run with the alpha of the shuffled runs is the curve's point N_sf=0:
  python -m fedpan_exp -m study=shuffle_federate fl_scene.alpha=10 study.N_sf=0.1,0.2,0.5,1 seed=0,1,2 pan=off
  python -m fedpan_exp -m fl_scene.alpha=10,1,0.1 seed=0,1,2 pan=off
  python -m fedpan_exp.misalignment runs
"""
COLUMNS = ("setting", "alpha", "test accuracy", "equivalent misplaced neurons", "interval over seeds", "seeds")
ALPHA = "fl_scene.alpha"
NEURONS, STEPS, REPEATS = 1024, 100, 20  # of the simulation; its result hardly depends on them
RNG_NAME = "thermometer"  # the command's former name; another one would change the numbers


@dataclass
class Scale:
    """Accuracies of runs that differ only in seed, alpha and shuffles; missing where there is no run."""

    title: str
    P_sf: float
    alpha: float  # of the shuffled runs, nearly i.i.d.
    shuffled: pd.DataFrame  # [N_sf, seed]
    others: pd.DataFrame  # [alpha, seed], unshuffled

    def misplaced(self) -> list[float]:
        """The fraction of misplaced neurons at each N_sf of the curve."""
        simulation = (NEURONS, STEPS, REPEATS)
        return [misplaced_ratio(N_sf, self.P_sf, *simulation, rng(0, RNG_NAME)) for N_sf in self.shuffled.index]

    def seeds(self, alpha: float) -> list[int]:
        """Seeds for which there is a run with this alpha and one at every point of the curve."""
        return list(pd.concat([self.shuffled, self.others.loc[[alpha]]]).dropna(axis="columns").columns)

    def read(self, misplaced: list[float], alpha: float) -> Reading:
        seeds = self.seeds(alpha)
        curve, accuracy = self.shuffled[seeds].to_numpy(), self.others.loc[alpha, seeds].to_numpy()
        return read(misplaced, curve, accuracy, numpy_rng(0, RNG_NAME, repr(alpha)))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fedpan_exp.misalignment",
        description="How many misplaced neurons would cost as much accuracy as non-i.i.d. data does?",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "folder", nargs="?", default="runs", help="folder of runs, in which the picture is saved, too (runs)"
    )
    folder = Path(parser.parse_args().folder)
    with exit_on_error():
        show(scales(load(folder)), folder)


def scales(runs: pd.DataFrame) -> list[Scale]:
    """Group complete federated runs into scales; a scale needs a curve of at least two points."""
    runs = measured(runs.loc[[ALPHA in identity for identity in runs["identity"]]])
    kinds = key(runs, "study", "seed", ALPHA, "probes", "probe_every")
    is_shuffled = column(runs, "study.N_sf") > 0
    fixed = column(runs, "study.P_sf"), column(runs, ALPHA)
    result = []
    for (kind, P_sf, alpha), points in runs[is_shuffled].groupby([kinds, *fixed], sort=False):
        plain = _by_seed(runs[~is_shuffled & (kinds == kind)], ALPHA).sort_index(ascending=False)
        unshuffled = plain[plain.index == alpha].rename({alpha: 0.0})
        curve = pd.concat([unshuffled, _by_seed(points, "study.N_sf")])
        if len(curve) > 1:
            result.append(Scale(_title(points.iloc[0]), P_sf, alpha, curve, plain[plain.index != alpha]))
    if not result:
        raise UserError(
            "no curve in these runs; run study=shuffle_federate with two values of N_sf, or with one and also "
            "study=federate with the same settings"
        )
    return result


def show(scales: list[Scale], folder: Path) -> None:
    rows: list[tuple[str, ...]] = []
    misplaced = [scale.misplaced() for scale in scales]
    for scale, fractions in zip(scales, misplaced, strict=True):
        for alpha, accuracies in scale.others.iterrows():
            seeds = scale.seeds(alpha)
            cells = ("no seed in common with the curve", "")
            if seeds:
                reading = scale.read(fractions, alpha)
                cells = _fraction(reading.ratio, fractions), _interval(reading, fractions)
            rows.append((scale.title, f"{alpha:g}", f"{accuracies.mean():.2%}", *cells, str(len(seeds))))
    if console.is_terminal:
        console.print(plain_table(COLUMNS, rows))
    else:
        print("\n".join("\t".join(row) for row in (COLUMNS, *rows)))
    console.print(f"\npicture: {draw(scales, misplaced, folder / 'misalignment.png')}", markup=False)


def draw(scales: list[Scale], misplaced: list[list[float]], path: Path) -> Path:
    """Accuracy against shuffles on i.i.d. data, non-i.i.d. runs as horizontal lines: the paper's sf-fl, bottom."""
    figure, axes = panels([scale.title for scale in scales], size=(4.6, 4.2))
    for panel, scale, fractions in zip(axes, scales, misplaced, strict=True):
        curve, levels = _cells(scale.shuffled), _cells(scale.others)
        draw_cost(panel, curve, ({scale.alpha: curve[0.0]} if 0.0 in curve else {}) | levels)
        above = panel.secondary_xaxis("top")
        labels = [f"{100 * fraction:.1f}" for fraction in fractions]
        above.set_xticks(list(curve), labels, fontsize=7, rotation=90)  # the first ones are close together
        above.set_xlabel("misplaced neurons (%)", fontsize=8)
    atomic_write(path, lambda temporary: figure.savefig(temporary, dpi=150))
    return path


def _by_seed(runs: pd.DataFrame, setting: str) -> pd.DataFrame:
    """Accuracies [setting, seed]."""
    return runs.pivot_table(VALUE, setting, "seed", aggfunc="last")


def _cells(accuracies: pd.DataFrame) -> dict[float, MeanStd]:
    return {value: mean_std(by_seed.dropna()) for value, by_seed in accuracies.iterrows()}


def _title(run: pd.Series) -> str:
    pans = "PANs off" if run["pans"] == "off" else f"PANs {run['pan.mode']} A={run['pan.A']:g}"
    return f"{run['dataset']} {run['model']} {run['algorithm']}, {pans}"


def _fraction(fraction: float, misplaced: list[float]) -> str:
    if fraction == inf:
        return f"above {max(misplaced):.1%}, out of range"
    if fraction == -inf:
        least = min(misplaced)
        return f"below {least:.1%}, out of range" if least else "none: no worse than i.i.d."
    return f"{fraction:.1%}"


def _interval(reading: Reading, misplaced: list[float]) -> str:
    if isnan(reading.low):
        return "one seed: no interval"
    ends = (_fraction(end, misplaced).split(",")[0].split(":")[0] for end in (reading.low, reading.high))
    return " to ".join(ends)


if __name__ == "__main__":
    main()
