"""python -m fedpan_exp.misalignment: non-i.i.d. runs, read as a share of misplaced neurons."""

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

from fedpan_exp.alignment.misalignment import Reading, misplaced_share, read
from fedpan_exp.report.misalignment import Panel, draw
from fedpan_exp.system.console import console, error_console
from fedpan_exp.system.errors import UserError
from fedpan_exp.system.rng import numpy_rng, rng
from fedpan_exp.tracking.identity import run_id
from fedpan_exp.tracking.runs import RunEntry, find_runs

EXAMPLES = """\
It needs study=shuffle_federate runs with several N_sf on nearly i.i.d. data, and study=federate runs with the same
settings but for alpha; with the alpha of the shuffled ones too, which is the curve's N_sf=0:
  python -m fedpan_exp -m study=shuffle_federate fl_scene.alpha=10 study.N_sf=0.1,0.2,0.5,1 seed=0,1,2 pan=off
  python -m fedpan_exp -m fl_scene.alpha=10,1,0.1 seed=0,1,2 pan=off
  python -m fedpan_exp.misalignment runs
"""
COLUMNS = ("setting", "alpha", "test accuracy", "like misplaced", "interval over seeds", "seeds")
NEURONS, STEPS, REPEATS = 1024, 100, 20  # of the simulation; the share hardly depends on them

BySeed = dict[int, float]


@dataclass
class Scale:
    """Runs that differ in nothing but seed, alpha and shuffles."""

    title: str
    P_sf: float
    alpha: float  # of the shuffled runs: nearly i.i.d.
    shuffled: dict[float, BySeed]  # by N_sf
    others: dict[float, BySeed]  # unshuffled, by alpha

    def misplaced(self) -> list[float]:
        simulate = (NEURONS, STEPS, REPEATS)
        return [misplaced_share(N_sf, self.P_sf, *simulate, rng(0, "thermometer")) for N_sf in self.shuffled]

    def seeds(self, alpha: float) -> list[int]:
        """That all of the curve has, too."""
        return sorted(set.intersection(*map(set, (*self.shuffled.values(), self.others[alpha]))))

    def read(self, misplaced: list[float], alpha: float) -> Reading:
        seeds = self.seeds(alpha)
        curve = np.array([[each[seed] for seed in seeds] for each in self.shuffled.values()])
        accuracy = np.array([self.others[alpha][seed] for seed in seeds])
        return read(misplaced, curve, accuracy, numpy_rng(0, "thermometer", repr(alpha)))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fedpan_exp.misalignment",
        description="How many misplaced neurons would cost as much accuracy as non-i.i.d. data does?",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", nargs="?", default="runs", help="of runs; the picture goes there, too")
    folder = Path(parser.parse_args().folder)
    try:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}")
        show(scales(find_runs([folder])), folder)
    except UserError as error:
        error_console.print(f"fedpan_exp: {error}", markup=False)
        raise SystemExit(1) from None


def scales(found: Iterable[RunEntry]) -> list[Scale]:
    """From finished runs; those without a curve of at least two points are left out."""
    plain: dict[str, dict[float, BySeed]] = defaultdict(lambda: defaultdict(dict))
    shuffled: dict[tuple[str, float, float], dict[float, BySeed]] = defaultdict(lambda: defaultdict(dict))
    titles = {}
    for entry in found:
        settings, study = entry.settings, entry.settings.get("study", {})
        if entry.status != "done" or study.get("name") not in ("federate", "shuffle_federate"):
            continue
        try:
            kind, alpha, accuracy = _kind(settings), settings["fl_scene"]["alpha"], entry.summary["summary/last5_acc"]
        except KeyError:  # another partition than Dirichlet's, or a run of an earlier version
            continue
        titles[kind] = _title(settings)
        points = shuffled[kind, study["P_sf"], alpha] if study.get("N_sf") else plain[kind]
        points[study.get("N_sf") or alpha][settings["seed"]] = accuracy
    made = []
    for (kind, P_sf, alpha), points in shuffled.items():
        others = dict(sorted(plain[kind].items(), reverse=True))
        unshuffled = others.pop(alpha, None)
        curve = ({0.0: unshuffled} if unshuffled else {}) | dict(sorted(points.items()))
        if len(curve) > 1:
            made.append(Scale(titles[kind], P_sf, alpha, curve, others))
    if not made:
        raise UserError("no curve: needs runs of study=shuffle_federate with two N_sf, or one and the unshuffled run")
    return made


def show(made: list[Scale], folder: Path) -> None:
    rows: list[tuple[str, ...]] = []
    panels = []
    for scale in made:
        misplaced = scale.misplaced()
        unshuffled = {scale.alpha: scale.shuffled[0.0]} if 0.0 in scale.shuffled else {}
        levels = [(f"alpha={alpha:g}", _mean(each)) for alpha, each in (unshuffled | scale.others).items()]
        points = [
            (N_sf, share, list(each.values()))
            for (N_sf, each), share in zip(scale.shuffled.items(), misplaced, strict=True)
        ]
        panels.append(Panel(scale.title, points, levels))
        for alpha in scale.others:
            seeds = scale.seeds(alpha)
            words = ("no seed in common with the curve", "")
            if seeds:
                reading = scale.read(misplaced, alpha)
                words = _share(reading.share, misplaced), _interval(reading, misplaced)
            rows.append((scale.title, f"{alpha:g}", f"{_mean(scale.others[alpha]):.2%}", *words, str(len(seeds))))
    if console.is_terminal:
        table = Table(*COLUMNS, box=None, padding=(0, 2, 0, 0))
        for row in rows:
            table.add_row(*row)
        console.print(table)
    else:
        print("\n".join("\t".join(row) for row in (COLUMNS, *rows)))
    console.print(f"\nin {draw(panels, folder / 'thermometer.png')}", markup=False)


def _mean(accuracies: BySeed) -> float:
    return fmean(accuracies.values())


def _kind(settings: dict[str, Any]) -> str:
    """The same for runs of one scale."""
    return run_id({**settings, "probes": [], "probe_every": 0}, ("study", "seed", "fl_scene.alpha"))


def _title(settings: dict[str, Any]) -> str:
    pan = settings["pan"]
    words = "PANs off" if pan["mode"] == "off" or pan["A"] == 0 else f"PANs {pan['mode']} A={pan['A']:g}"
    return f"{settings['dataset']['name']} {settings['model']['name']} {settings['algorithm']['name']}, {words}"


def _share(share: float, misplaced: list[float]) -> str:
    if share == inf:
        return f"above {max(misplaced):.1%}, out of range"
    if share == -inf:
        least = min(misplaced)
        return f"below {least:.1%}, out of range" if least else "none: no worse than i.i.d."
    return f"{share:.1%}"


def _interval(reading: Reading, misplaced: list[float]) -> str:
    if isnan(reading.low):
        return "one seed: no interval"
    ends = (_share(end, misplaced).split(",")[0].split(":")[0] for end in (reading.low, reading.high))
    return " to ".join(ends)


if __name__ == "__main__":
    main()
