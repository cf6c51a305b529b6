"""Run folders as one pandas table: a row per run, a column per setting and per number of its summary."""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedpan_exp.tracking.archive import as_folder
from fedpan_exp.tracking.identity import identity_config
from fedpan_exp.tracking.logs import flat
from fedpan_exp.tracking.runs import RunEntry

VALUE = "summary/last5_acc"  # what runs are compared by, unless stated otherwise
PAN_NAMES = {"add": "PAN+", "mul": "PAN∘"}
PAN_DEFAULTS = {
    **{"T": 1, "encoding": "sine", "placement": "paper", "per_client": "shared", "own_share": 0.5},
    **{"order": "shared", "n_fix": 0},
}
COLUMNS = (
    *("folder", "status", "problem", "complete", "pans", "pan", "seed", "study", "dataset", "model", "algorithm"),
    *("rounds", "versions", "identity"),
)
ANY_OF = ("status.json", "metrics.jsonl", "config.yaml")  # what makes a folder a run folder
FILES = (*ANY_OF, "summary.json", "partition.csv")
CACHED = 4096  # runs in memory; only changed ones are read again

Signature = tuple[object, ...]


def load(*folders: str | Path) -> pd.DataFrame:
    """All runs of these folders (`runs` by default) or archives (`runs.zip`), indexed by name.

    Settings have their dotted names (`fl_scene.alpha`), numbers of the summary theirs (`summary/last5_acc`). `pan` is a
    label (off, PAN+ 0.05, PAN∘ 0.1 T=8); with PANs off `pan.A` is 0 and the other settings of `pan` are missing.
    Statistics use only `complete` runs; `problem` is why one is not. `identity` has the settings that determine the
    numbers of a run. A run that was copied between folders counts once, and a complete copy wins.
    """
    rows = [_read(folder, signature(folder)) for folder in run_folders(map(Path, folders or ("runs",)))]
    runs = pd.DataFrame(rows, columns=None if rows else ["name", *COLUMNS])
    runs["complete"] = runs["complete"].astype(bool)  # also of no runs
    runs = runs.sort_values("complete", ascending=False, kind="stable").drop_duplicates("name").sort_index()
    return runs.set_index("name").rename_axis(index="run")


def load_run(folder: Path) -> pd.DataFrame:
    """A table of one run, for its own pictures: all that it has measured so far counts."""
    return pd.DataFrame([_read(folder, signature(folder))]).set_index("name").assign(complete=True)


def records(folder: Path) -> pd.DataFrame:
    """metrics.jsonl, one row per round; damaged and half-written lines are left out."""
    return _records(folder, file_signature(folder / "metrics.jsonl"))[0]


def curves(folders: Iterable[Path], name: str, against: str = "round") -> pd.DataFrame:
    """One metric of several runs, [rounds, runs], at the rounds where it is finite in every run that has it."""
    numbers = [
        records(folder).reindex(columns=[against, name]).apply(pd.to_numeric, errors="coerce") for folder in folders
    ]
    finite = [each.replace([np.inf, -np.inf], np.nan).dropna().set_index(against)[name] for each in numbers]
    return pd.concat([each for each in finite if len(each)] or [pd.Series(dtype=float)], axis=1, join="inner")


def column(runs: pd.DataFrame, name: str) -> pd.Series:
    """A column, or missing values where no run has it."""
    return runs[name] if name in runs else pd.Series(float("nan"), runs.index, name=name)


def setting_names(runs: pd.DataFrame) -> list[str]:
    return [name for name in runs if name == "seed" or not (name in COLUMNS or name.startswith("summary/"))]


def each(runs: pd.DataFrame) -> Iterator[pd.Series]:
    """The runs, one row after another."""
    return (run for _, run in runs.iterrows())


def key(runs: pd.DataFrame, *without: str) -> pd.Series:
    """Equal for runs that differ in nothing but these settings or groups."""
    keys = [
        json.dumps(
            {name: value for name, value in identity.items() if not belongs(name, without)}, sort_keys=True, default=str
        )
        for identity in runs["identity"]
    ]
    return pd.Series(keys, runs.index, dtype=object)


def differing(runs: pd.DataFrame, *without: str) -> list[str]:
    """The settings in which runs differ."""
    identities = list(runs["identity"])
    names = dict.fromkeys(name for identity in identities for name in identity if not belongs(name, without))
    return [name for name in names if len({show(identity.get(name)) for identity in identities}) > 1]


def show(value: Any) -> str:
    """0.1, cifar10, divergence+cosine, null"""
    if isinstance(value, list | tuple):
        return "+".join(map(show, value)) or "none"
    if value is None or value != value:  # pandas has nan for null among numbers
        return "null"
    return f"{value:g}" if isinstance(value, float) else str(value)


def belongs(name: str, groups: Iterable[str]) -> bool:
    """Whether a setting is one of these, or in one of these groups."""
    return any(name == group or name.startswith(f"{group}.") for group in groups)


def run_folders(folders: Iterable[Path]) -> list[Path]:
    """Direct subfolders with at least one file of a run; status.json may be missing. Archives count as folders."""
    found = []
    for folder in map(as_folder, folders):
        candidates = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        found += [path for path in candidates if any((path / name).exists() for name in ANY_OF)]
    return found


def signature(folder: Path) -> Signature:
    """Changes whenever a file of the run does, and when its process dies, although no file does."""
    return RunEntry(folder).status, *(file_signature(folder / name) for name in FILES)


@lru_cache(CACHED)
def _read(folder: Path, signature: Signature) -> dict[str, Any]:
    """A row of the table."""
    entry = RunEntry(folder)
    defects, settings = _defects(entry), flat(entry.settings, separator=".")
    reasons = [] if entry.status == "done" else [entry.reason or entry.status]
    numbers = {name: value for name, value in entry.summary.items() if isinstance(value, Real) and isfinite(value)}
    groups = {name.removesuffix(".name"): value for name, value in settings.items() if name.endswith(".name")}
    pan = {name: value for name, value in settings.items() if belongs(name, ("pan",))}
    if entry.pans_off:
        settings |= dict.fromkeys(pan) | {"pan.mode": "off", "pan.A": 0.0}
    return {
        **dict.fromkeys(COLUMNS),  # the order of columns
        **{name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()},
        **numbers,
        **groups,
        "name": entry.name,
        "folder": folder,
        "status": entry.status,
        "problem": "; ".join([*reasons, *defects]),
        "complete": entry.status == "done" and not defects,
        "pans": "off" if entry.pans_off else "on",
        "pan": "off" if entry.pans_off else _pan_label({name.removeprefix("pan."): pan[name] for name in pan}),
        "rounds": entry.rounds,
        "versions": _versions(entry.status_file),
        "identity": _identity(entry),
    }


def _identity(entry: RunEntry) -> dict[str, Any]:
    """The settings that determine the numbers of a run, by their dotted names; of strange settings, all."""
    try:
        config = identity_config(entry.settings, entry.status_file.get("irrelevant", ()), entry.pans_off)
    except (AttributeError, KeyError, TypeError):
        config = entry.settings
    return flat(config | ({"pan": {"mode": "off"}} if entry.pans_off else {}), separator=".")


def _defects(entry: RunEntry) -> list[str]:
    """What is wrong with the files of a run."""
    lines, damage = _records(entry.folder, file_signature(entry.folder / "metrics.jsonl"))
    defects = list(damage)
    if entry.status == "unreadable":
        defects.append("status.json is missing or damaged")
    if not entry.settings:
        defects.append("config.yaml is missing or damaged")
    rounds = entry.summary.get("summary/rounds")
    if entry.status == "done" and isinstance(rounds, int) and rounds != len(lines):
        defects.append(f"summary.json counts {rounds} rounds, metrics.jsonl has {len(lines)}")
    return defects


@lru_cache(CACHED)
def _records(folder: Path, signature: object) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The readable lines of metrics.jsonl, and a description of each kind of damage."""
    if signature is None:
        return pd.DataFrame(columns=["round"]), ()
    *lines, rest = (folder / "metrics.jsonl").read_bytes().decode("utf-8", errors="replace").split("\n")
    defects = ["metrics.jsonl ends in the middle of a line"] if rest.strip() else []
    try:
        parsed = json.loads(f"[{','.join(lines)}]")  # five times faster than line by line
    except ValueError:
        parsed = [_parse(line) for line in lines]
    valid = [isinstance(record, dict) and isinstance(record.get("round"), int) for record in parsed]
    if not all(valid):
        others = f" and {valid.count(False) - 1} more are damaged" if valid.count(False) > 1 else " is damaged"
        defects.append(f"line {valid.index(False) + 1} of metrics.jsonl{others}")
    kept = [record for record, is_valid in zip(parsed, valid, strict=True) if is_valid]
    return pd.DataFrame(kept, columns=None if kept else ["round"]), tuple(defects)


def _parse(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _pan_label(pan: dict[str, Any]) -> str:
    """PAN+ 0.05, PAN∘ 0.1 T=8"""
    mode, A = str(pan.pop("mode", None)), pan.pop("A", None)
    rest = [f"{name}={show(value)}" for name, value in pan.items() if value != PAN_DEFAULTS.get(name)]
    return " ".join([PAN_NAMES.get(mode, mode), show(A), *rest])


def _versions(status: dict[str, Any]) -> str:
    """Versions of the package and of torch that the run was made with."""
    recorded = status.get("versions")
    versions = recorded if isinstance(recorded, dict) else {}
    git = str(status.get("git") or "")
    commit = f" ({git[:7]}{'+changes' if git.endswith('+changes') else ''})" if git else ""
    return f"fedpan_exp {versions.get('fedpan_exp', '?')}{commit}, torch {versions.get('torch', '?')}"


def file_signature(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
