"""Sweeps, read from runs/.sweeps/<sweep>-<scale>.json, together with the runs they list."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd


@dataclass(frozen=True, eq=False)
class Sweep:
    """The data of one figure."""

    name: str
    scale: str
    command: str
    swept: tuple[str, ...]
    runs: pd.DataFrame
    all_runs: pd.DataFrame  # in the folders, for figures that use more than their sweep
    absent: tuple[str, ...] = ()  # listed runs that were not found

    @property
    def id(self) -> str:
        return f"{self.name}-{self.scale}"

    def of(self, *studies: str) -> pd.DataFrame:
        return self.runs[self.runs["study"].isin(studies)]

    def warnings(self) -> list[str]:
        """What a reader must know before trusting the figure."""
        warnings = []
        complete = self.runs[self.runs["complete"].astype(bool)]
        incomplete = self.runs["status"].drop(complete.index).replace("done", "damaged")
        if len(incomplete):
            counts = ", ".join(f"{count} {kind}" for kind, count in Counter(incomplete).most_common())
            are = "is" if len(incomplete) == 1 else "are"
            warnings.append(f"{len(incomplete)} of {len(self.runs)} runs {are} incomplete and left out ({counts})")
        if self.absent:
            count = len(self.absent)
            warnings.append(f"{count} {'run of the sweep is' if count == 1 else 'runs of the sweep are'} missing")
        versions = Counter(complete["versions"])
        if len(versions) > 1:
            counts = "; ".join(
                f"{version}: {count} {'run' if count == 1 else 'runs'}" for version, count in versions.most_common(3)
            )
            warnings.append(f"made by {len(versions)} versions of the package ({counts})")
        if complete["seed"].nunique() == 1:
            warnings.append("one seed: no error bars, no deviations")
        return warnings


def listings(folders: Iterable[Path]) -> list[Path]:
    return sorted(path for folder in folders for path in folder.glob(".sweeps/*.json"))


def read_sweeps(folders: Iterable[Path], runs: pd.DataFrame) -> tuple[list[Sweep], list[str]]:
    """The sweeps, and a message for each unreadable listing. Parts of one sweep on several machines are joined."""
    joined: dict[tuple[str, str], dict[str, Any]] = {}
    problems = []
    for path in listings(folders):
        try:
            listing = json.loads(path.read_text(encoding="utf-8"))
            name, scale, command = (str(listing[key]) for key in ("sweep", "scale", "command"))
            names = [str(job["run"]) for job in listing["jobs"]]
            swept = [str(setting) for setting in listing["swept"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{path} cannot be read as a sweep ({type(error).__name__}: {error})")
            continue
        sweep = joined.setdefault((name, scale), {"command": command, "swept": swept, "runs": {}})
        sweep["runs"] |= dict.fromkeys(names)
    return [
        Sweep(
            name,
            scale,
            sweep["command"],
            tuple(sweep["swept"]),
            runs.loc[[run for run in sweep["runs"] if run in runs.index]],
            runs,
            tuple(run for run in sweep["runs"] if run not in runs.index),
        )
        for (name, scale), sweep in joined.items()
    ], problems
