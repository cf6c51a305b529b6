"""All runs and sweeps of some folders; asked again, only what has changed is read again."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from fedpan_exp.report.records import read_records, to_columns
from fedpan_exp.report.runs import Run
from fedpan_exp.report.sweeps import Sweep, read_listings
from fedpan_exp.system.errors import UserError
from fedpan_exp.tracking.runs import RunEntry

WATCHED = ("status.json", "metrics.jsonl", "summary.json", "config.yaml", "partition.csv")

Signature = tuple[object, ...]


class RunCollection:
    def __init__(self, places: Sequence[Path]):
        self.places = places
        self._runs: dict[Path, tuple[Signature, Run]] = {}

    def runs(self) -> list[Run]:
        folders = {folder: sign(folder) for folder in find_folders(self.places)}
        known = {folder: self._runs[folder] for folder, signature in folders.items() if self.knows(folder, signature)}
        self._runs = {
            folder: known.get(folder) or (signature, read_run(folder)) for folder, signature in folders.items()
        }
        return distinct(run for _, run in self._runs.values())

    def sweeps(self, runs: Sequence[Run]) -> tuple[list[Sweep], list[str]]:
        return read_listings(self.places, runs)

    def state(self) -> Signature:
        """Differs as soon as any file does."""
        listings = sorted(path for place in self.places for path in place.glob(".sweeps/*.json"))
        return (*((folder, sign(folder)) for folder in find_folders(self.places)), *map(_stamp, listings))

    def signature(self, run: Run) -> Signature:
        return self._runs[run.entry.folder][0]

    def knows(self, folder: Path, signature: Signature) -> bool:
        return folder in self._runs and self._runs[folder][0] == signature


def read_run(folder: Path) -> Run:
    entry = RunEntry(folder)
    lines, marks = read_records(folder / "metrics.jsonl")
    if entry.status == "unreadable":
        marks.append("status.json is missing or damaged")
    if not (entry.settings and isinstance(entry.settings, dict)):
        marks.append("config.yaml is missing or damaged")
    rounds = entry.summary.get("summary/rounds")
    if entry.status == "done" and isinstance(rounds, int) and rounds != len(lines):
        marks.append(f"its summary tells of {rounds} rounds, its record has {len(lines)}")
    return Run(entry, to_columns(lines), tuple(marks))


def find_folders(places: Iterable[Path]) -> list[Path]:
    """Run folders lie flat in each place; one that has lost its status is found by its other files."""
    signs = ("status.json", "config.yaml", "metrics.jsonl")
    found = []
    for place in places:
        if not place.is_dir():
            raise UserError(f"there is no folder {place}")
        candidates = sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith("."))
        found += [path for path in candidates if any((path / sign).exists() for sign in signs)]
    return found


def distinct(runs: Iterable[Run]) -> list[Run]:
    """A run copied between machines counts once, as its best copy."""
    best: dict[str, Run] = {}
    for run in runs:
        if run.name not in best or (run.whole and not best[run.name].whole):
            best[run.name] = run
    return list(best.values())


def sign(folder: Path) -> Signature:
    """The status tells of a dead process, which no file does."""
    return (RunEntry(folder).status, *(_stamp(folder / name) for name in WATCHED))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
