"""All runs and sweeps of some folders; asked again, only what has changed is read again."""

from collections.abc import Sequence
from pathlib import Path

from fedpan_exp.report.runs import Run, distinct, find_folders, read_run
from fedpan_exp.report.sweeps import Sweep, read_listings
from fedpan_exp.tracking.ledger import Entry

WATCHED = ("status.json", "metrics.jsonl", "summary.json", "config.yaml", "partition.csv")

Signature = tuple[object, ...]


class Library:
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


def sign(folder: Path) -> Signature:
    """The status tells of a dead process, which no file does."""
    return (Entry(folder).status, *(_stamp(folder / name) for name in WATCHED))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
