"""python -m fedpan_exp.thermometer: non-i.i.d. runs, read as a share of misplaced neurons."""

import argparse
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from fedpan_exp.checks import UserError
from fedpan_exp.console import console, errors
from fedpan_exp.neurons.thermometer import Reading, misplaced_share, read
from fedpan_exp.randomness import numpy_stream, stream
from fedpan_exp.report.thermometer import Panel, draw
from fedpan_exp.tracking.identity import run_id
from fedpan_exp.tracking.ledger import Entry, entries

EXAMPLES = """\
It needs study=shuffle_federate runs with several N_sf on nearly i.i.d. data, and study=federate runs with the same
settings but for alpha; with the alpha of the shuffled ones too, which is the curve's N_sf=0:
  python -m fedpan_exp -m study=shuffle_federate fl_scene.alpha=10 study.N_sf=0.1,0.2,0.5,1 seed=0,1,2 pan=off
  python -m fedpan_exp -m fl_scene.alpha=10,1,0.1 seed=0,1,2 pan=off
  python -m fedpan_exp.thermometer runs
"""
COLUMNS = ("setting", "alpha", "test accuracy", "like misplaced", "95% interval", "seeds")
NEURONS, STEPS, REPEATS = 1024, 100, 20  # of the simulation; the share hardly depends on them

BySeed = dict[int, float]


@dataclass
class Scale:
    """Runs that differ in nothing but seed, alpha and shuffles."""

    title: str
    P_sf: float
    alpha: float  # of the shuffled runs: nearly i.i.d.
    shuffled: dict[float, BySeed]  # by N_sf
    others: dict[float, BySeed] = field(default_factory=dict)  # unshuffled, by alpha

    def misplaced(self) -> list[float]:
        simulate = (NEURONS, STEPS, REPEATS)
        return [misplaced_share(N_sf, self.P_sf, *simulate, stream(0, "thermometer")) for N_sf in self.shuffled]

    def read(self, misplaced: list[float], alpha: float) -> tuple[Reading, BySeed]:
        """From the seeds that all of the curve has, too."""
        seeds = sorted(set.intersection(*map(set, (*self.shuffled.values(), self.others[alpha]))))
        if not seeds:
            raise UserError(f"{self.title}: the runs with alpha={alpha:g} and the shuffled ones have no seed in common")
        curve = np.array([[each[seed] for seed in seeds] for each in self.shuffled.values()])
        accuracy = {seed: self.others[alpha][seed] for seed in seeds}
        draws = numpy_stream(0, "thermometer", repr(alpha))
        return read(misplaced, curve, np.array(list(accuracy.values())), draws), accuracy


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fedpan_exp.thermometer",
        description="How many misplaced neurons would cost as much accuracy as non-i.i.d. data does?",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", nargs="?", default="runs", help="of runs; the picture goes there, too")
    folder = Path(parser.parse_args().folder)
    try:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}")
        show(scales(entries([folder])), folder)
    except UserError as error:
        errors.print(f"fedpan_exp: {error}", markup=False)
        raise SystemExit(1) from None


def scales(found: Iterable[Entry]) -> list[Scale]:
    """From finished runs; those without a curve of at least two points are left out."""
    plain: dict[str, dict[float, BySeed]] = defaultdict(lambda: defaultdict(dict))
    shuffled: dict[tuple[str, float, float], dict[float, BySeed]] = defaultdict(lambda: defaultdict(dict))
    titles = {}
    for entry in found:
        settings, accuracy = entry.settings, entry.summary.get("summary/last5_acc")
        study = settings.get("study", {})
        is_ours = study.get("name") in ("federate", "shuffle_federate") and accuracy is not None
        if not is_ours or entry.status != "done" or "dirichlet" not in settings["fl_scene"]["partition"]:
            continue
        kind, alpha, seed = _kind(settings), settings["fl_scene"]["alpha"], settings["seed"]
        titles[kind] = _title(settings)
        if study.get("N_sf"):
            shuffled[kind, study["P_sf"], alpha][study["N_sf"]][seed] = accuracy
        else:
            plain[kind][alpha][seed] = accuracy
    made = []
    for (kind, P_sf, alpha), points in shuffled.items():
        unshuffled = {0.0: plain[kind][alpha]} if plain[kind][alpha] else {}
        curve = unshuffled | dict(sorted(points.items()))
        others = {a: each for a, each in sorted(plain[kind].items(), reverse=True) if a != alpha and each}
        if len(curve) > 1:
            made.append(Scale(titles[kind], P_sf, alpha, curve, others))
    if not made:
        raise UserError("no curve: needs runs of study=shuffle_federate with two N_sf, or one and the unshuffled run")
    return made


def show(made: list[Scale], folder: Path) -> None:
    rows, panels = [], []
    for scale in made:
        misplaced = scale.misplaced()
        levels = [(f"alpha={alpha:g}", float(np.mean(list(each.values())))) for alpha, each in scale.others.items()]
        if 0.0 in scale.shuffled:
            level = float(np.mean(list(scale.shuffled[0.0].values())))
            levels.insert(0, (f"alpha={scale.alpha:g}", level))
        points = [
            (N_sf, share, list(each.values()))
            for (N_sf, each), share in zip(scale.shuffled.items(), misplaced, strict=True)
        ]
        panels.append(Panel(scale.title, points, levels))
        for alpha in scale.others:
            reading, accuracy = scale.read(misplaced, alpha)
            row = (_share(reading.share, max(misplaced)), _interval(reading, max(misplaced)), str(len(accuracy)))
            rows.append((scale.title, f"{alpha:g}", f"{np.mean(list(accuracy.values())):.2%}", *row))
    table = Table(*COLUMNS, box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"\nin {draw(panels, folder / 'thermometer.png')}", markup=False)


def _kind(settings: dict[str, Any]) -> str:
    """The same for runs of one scale."""
    return run_id({**settings, "probes": [], "probe_every": 0}, ("study", "seed", "fl_scene.alpha"))


def _title(settings: dict[str, Any]) -> str:
    pan = settings["pan"]
    words = "PANs off" if pan["mode"] == "off" or pan["A"] == 0 else f"PANs {pan['mode']} A={pan['A']:g}"
    return f"{settings['dataset']['name']} {settings['model']['name']} {settings['algorithm']['name']}, {words}"


def _share(share: float, most: float) -> str:
    if share == -inf:
        return "none: no worse than i.i.d."
    return f"out of range, above {most:.1%}" if share == inf else f"{share:.1%}"


def _interval(reading: Reading, most: float) -> str:
    if isnan(reading.low):
        return "one seed: none"
    low, high = ("none" if end == -inf else f"above {most:.1%}" if end == inf else f"{end:.1%}" for end in reading[1:])
    return f"{low} to {high}"


if __name__ == "__main__":
    main()
