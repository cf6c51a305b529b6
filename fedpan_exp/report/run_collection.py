"""All runs and sweeps of some folders; only changed files are read again."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from fedpan_exp.report.records import read_records, to_columns
from fedpan_exp.report.runs import Run
from fedpan_exp.report.sweeps import Sweep, read_listings
from fedpan_exp.system.errors import UserError
from fedpan_exp.tracking.runs import RunEntry

SIGNATURE_FILES = ("status.json", "metrics.jsonl", "summary.json", "config.yaml", "partition.csv")

Signature = tuple[object, ...]


class RunCollection:
    def __init__(self, folders: Sequence[Path]):
        self.folders = folders
        self._runs: dict[Path, tuple[Signature, Run]] = {}

    def runs(self) -> list[Run]:
        signatures = {folder: folder_signature(folder) for folder in find_run_folders(self.folders)}
        cached = {folder: run for folder, run in self._runs.items() if run[0] == signatures.get(folder)}
        self._runs = {
            folder: cached.get(folder) or (signature, read_run(folder)) for folder, signature in signatures.items()
        }
        return distinct(run for _, run in self._runs.values())

    def sweeps(self, runs: Sequence[Run]) -> tuple[list[Sweep], list[str]]:
        return read_listings(self.folders, runs)

    def state(self) -> Signature:
        """Changes whenever a file of a run or a sweep does."""
        listings = sorted(path for folder in self.folders for path in folder.glob(".sweeps/*.json"))
        runs = ((folder, folder_signature(folder)) for folder in find_run_folders(self.folders))
        return (*runs, *map(_file_signature, listings))

    def signature(self, run: Run) -> Signature:
        return self._runs[run.entry.folder][0]


def read_run(folder: Path) -> Run:
    entry = RunEntry(folder)
    lines, defects = read_records(folder / "metrics.jsonl")
    if entry.status == "unreadable":
        defects.append("status.json is missing or damaged")
    if not (entry.settings and isinstance(entry.settings, dict)):
        defects.append("config.yaml is missing or damaged")
    rounds = entry.summary.get("summary/rounds")
    if entry.status == "done" and isinstance(rounds, int) and rounds != len(lines):
        defects.append(f"summary.json counts {rounds} rounds, metrics.jsonl has {len(lines)}")
    return Run(entry, to_columns(lines), tuple(defects))


def find_run_folders(folders: Iterable[Path]) -> list[Path]:
    """Direct subfolders with at least one file of a run; status.json may be missing."""
    files = ("status.json", "config.yaml", "metrics.jsonl")
    run_folders = []
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}")
        candidates = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        run_folders += [path for path in candidates if any((path / name).exists() for name in files)]
    return run_folders


def distinct(runs: Iterable[Run]) -> list[Run]:
    """Count a run that was copied between machines once, preferring a complete copy."""
    best: dict[str, Run] = {}
    for run in runs:
        if run.name not in best or (run.complete and not best[run.name].complete):
            best[run.name] = run
    return list(best.values())


def folder_signature(folder: Path) -> Signature:
    """Includes the status: it changes when the process dies, although no file does."""
    return (RunEntry(folder).status, *(_file_signature(folder / name) for name in SIGNATURE_FILES))


def _file_signature(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
