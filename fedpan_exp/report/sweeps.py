"""Sweeps, read from runs/.sweeps/<sweep>-<scale>.json, together with the runs they list."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedpan_exp.tracking.archive import as_folder


@dataclass(frozen=True, eq=False)
class Sweep:
    """The data of one figure."""

    name: str
    scale: str
    command: str
    swept: Sequence[str]
    runs: pd.DataFrame
    all_runs: pd.DataFrame  # in the folders, for figures that use more than their sweep
    absent: tuple[str, ...] = ()  # listed runs that were not found

    @property
    def id(self) -> str:
        return f"{self.name}-{self.scale}"

    def warnings(self) -> list[str]:
        """What a reader must know before trusting the figure."""
        warnings = []
        complete = self.runs[self.runs["complete"]]
        incomplete = self.runs["status"].drop(complete.index).replace("done", "damaged")
        if len(incomplete):
            kinds = _counts(incomplete)
            warnings.append(f"incomplete and left out: {len(incomplete)} of {len(self.runs)} runs ({kinds})")
        if self.absent:
            warnings.append(f"runs of the sweep that are missing: {len(self.absent)}")
        versions = complete["versions"]
        if versions.nunique() > 1:
            warnings.append(f"made by {versions.nunique()} versions of the package, by runs: {_counts(versions)}")
        if complete["seed"].nunique() == 1:
            warnings.append("one seed: no error bars, no deviations")
        return warnings


def _counts(values: pd.Series) -> str:
    """2 failed, 1 running"""
    return ", ".join(f"{count} {value}" for value, count in values.value_counts().items())


def listings(folders: Iterable[Path]) -> list[Path]:
    return sorted(path for folder in map(as_folder, folders) for path in folder.glob(".sweeps/*.json"))


def read_sweeps(folders: Iterable[Path], runs: pd.DataFrame) -> tuple[list[Sweep], list[str]]:
    """The sweeps, and a message for each unreadable listing. Parts of one sweep on several machines are joined."""
    joined: dict[tuple[str, str], tuple[str, list[str], list[str]]] = {}
    problems = []
    for path in listings(folders):
        try:
            listing = json.loads(path.read_text(encoding="utf-8"))
            name, scale, command = (str(listing[key]) for key in ("sweep", "scale", "command"))
            swept, names = map(str, listing["swept"]), [str(job["run"]) for job in listing["jobs"]]
            joined.setdefault((name, scale), (command, list(swept), []))[2].extend(names)
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{path} cannot be read as a sweep ({type(error).__name__}: {error})")
    sweeps = []
    for (name, scale), (command, settings, names) in joined.items():
        listed = pd.Index(names, dtype=object).unique()
        found = listed.isin(runs.index)
        sweeps.append(Sweep(name, scale, command, settings, runs.loc[listed[found]], runs, tuple(listed[~found])))
    return sweeps, problems
