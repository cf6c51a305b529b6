"""python -m fedpan_exp.misalignment: express the accuracy loss of non-i.i.d. runs as misplaced neurons."""

import argparse
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isnan
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from rich.table import Table

from fedpan_exp.alignment.misalignment import Reading, misplaced_ratio, read
from fedpan_exp.report.figure_result import grid
from fedpan_exp.report.statistics import SeedStats
from fedpan_exp.studies.shuffle_federate.figure import draw_cost
from fedpan_exp.system.atomic_io import atomic_write
from fedpan_exp.system.console import console, error_console
from fedpan_exp.system.errors import UserError
from fedpan_exp.system.rng import numpy_rng, rng
from fedpan_exp.tracking.identity import run_id
from fedpan_exp.tracking.runs import RunEntry, find_runs

EXAMPLES = """\
It needs study=shuffle_federate runs with several N_sf on nearly i.i.d. data, and study=federate runs that differ from
them only in alpha. A study=federate run with the alpha of the shuffled runs is the curve's point N_sf=0:
  python -m fedpan_exp -m study=shuffle_federate fl_scene.alpha=10 study.N_sf=0.1,0.2,0.5,1 seed=0,1,2 pan=off
  python -m fedpan_exp -m fl_scene.alpha=10,1,0.1 seed=0,1,2 pan=off
  python -m fedpan_exp.misalignment runs
"""
COLUMNS = ("setting", "alpha", "test accuracy", "equivalent misplaced neurons", "interval over seeds", "seeds")
ACCURACY = "summary/last5_acc"
NEURONS, STEPS, REPEATS = 1024, 100, 20  # of the simulation; its result hardly depends on them
RNG_NAME = "thermometer"  # the command's former name; another one would change the numbers

BySeed = dict[int, float]


@dataclass
class Scale:
    """Accuracies of runs that differ only in seed, alpha and shuffles."""

    title: str
    P_sf: float
    alpha: float  # of the shuffled runs, nearly i.i.d.
    shuffled: dict[float, BySeed]  # by N_sf
    others: dict[float, BySeed]  # unshuffled, by alpha

    def misplaced(self) -> list[float]:
        """The fraction of misplaced neurons at each N_sf of the curve."""
        simulation = (NEURONS, STEPS, REPEATS)
        return [misplaced_ratio(N_sf, self.P_sf, *simulation, rng(0, RNG_NAME)) for N_sf in self.shuffled]

    def seeds(self, alpha: float) -> list[int]:
        """Seeds for which there is a run with this alpha and one at every point of the curve."""
        return sorted(set.intersection(*map(set, (*self.shuffled.values(), self.others[alpha]))))

    def read(self, misplaced: list[float], alpha: float) -> Reading:
        seeds = self.seeds(alpha)
        curve = np.array([[each[seed] for seed in seeds] for each in self.shuffled.values()])
        accuracy = np.array([self.others[alpha][seed] for seed in seeds])
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
    try:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}")
        show(scales(find_runs([folder])), folder)
    except UserError as error:
        error_console.print(f"fedpan_exp: {error}", markup=False)
        raise SystemExit(1) from None


def scales(runs: Iterable[RunEntry]) -> list[Scale]:
    """Group finished federated runs into scales; a scale needs a curve of at least two points."""
    plain: dict[str, dict[float, BySeed]] = defaultdict(lambda: defaultdict(dict))
    shuffled: dict[tuple[str, float, float], dict[float, BySeed]] = defaultdict(lambda: defaultdict(dict))
    titles = {}
    for run in runs:
        settings, study = run.settings, run.settings.get("study", {})
        is_federated = "fl_scene" not in run.status_file.get("irrelevant", ())
        if run.status != "done" or not is_federated or ACCURACY not in run.summary:
            continue
        try:
            kind, alpha, accuracy = _kind(settings), settings["fl_scene"]["alpha"], run.summary[ACCURACY]
        except KeyError:  # a partition other than Dirichlet, or a run of an earlier version
            continue
        titles[kind] = _title(settings)
        points = shuffled[kind, study["P_sf"], alpha] if study.get("N_sf") else plain[kind]
        points[study.get("N_sf") or alpha][settings["seed"]] = accuracy
    result = []
    for (kind, P_sf, alpha), points in shuffled.items():
        others = dict(sorted(plain[kind].items(), reverse=True))
        unshuffled = others.pop(alpha, None)
        curve = ({0.0: unshuffled} if unshuffled else {}) | dict(sorted(points.items()))
        if len(curve) > 1:
            result.append(Scale(titles[kind], P_sf, alpha, curve, others))
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
        for alpha in scale.others:
            seeds = scale.seeds(alpha)
            cells = ("no seed in common with the curve", "")
            if seeds:
                reading = scale.read(fractions, alpha)
                cells = _fraction(reading.ratio, fractions), _interval(reading, fractions)
            rows.append((scale.title, f"{alpha:g}", f"{_mean(scale.others[alpha]):.2%}", *cells, str(len(seeds))))
    if console.is_terminal:
        table = Table(*COLUMNS, box=None, padding=(0, 2, 0, 0))
        for row in rows:
            table.add_row(*row)
        console.print(table)
    else:
        print("\n".join("\t".join(row) for row in (COLUMNS, *rows)))
    console.print(f"\npicture: {draw(scales, misplaced, folder / 'misalignment.png')}", markup=False)


def draw(scales: list[Scale], misplaced: list[list[float]], path: Path) -> Path:
    """Accuracy against shuffles on i.i.d. data, non-i.i.d. runs as horizontal lines: the paper's sf-fl, bottom."""
    figure, axes = grid(1, len(scales), 4.6, 4.2)
    for panel, scale, fractions in zip(axes.flat, scales, misplaced, strict=True):
        curve = {N_sf: SeedStats(tuple(each.values())) for N_sf, each in scale.shuffled.items()}
        unshuffled = {scale.alpha: scale.shuffled[0.0]} if 0.0 in scale.shuffled else {}
        levels = {alpha: SeedStats(tuple(each.values())) for alpha, each in (unshuffled | scale.others).items()}
        draw_cost(panel, curve, levels)
        panel.set_title(scale.title, fontsize=9)
        above = panel.secondary_xaxis("top")
        labels = [f"{100 * fraction:.1f}" for fraction in fractions]
        above.set_xticks(list(curve), labels, fontsize=7, rotation=90)  # the first ones are close together
        above.set_xlabel("misplaced neurons (%)", fontsize=8)
    atomic_write(path, lambda temporary: figure.savefig(temporary, dpi=150))
    return path


def _mean(accuracies: BySeed) -> float:
    return fmean(accuracies.values())


def _kind(settings: dict[str, Any]) -> str:
    """Equal for runs of one scale."""
    return run_id({**settings, "probes": [], "probe_every": 0}, ("study", "seed", "fl_scene.alpha"))


def _title(settings: dict[str, Any]) -> str:
    pan = settings["pan"]
    pans = "PANs off" if pan["mode"] == "off" or pan["A"] == 0 else f"PANs {pan['mode']} A={pan['A']:g}"
    return f"{settings['dataset']['name']} {settings['model']['name']} {settings['algorithm']['name']}, {pans}"


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
