"""An archive of runs: settings and records in one zip file, to share and to keep. Weights and pictures stay behind."""

import atexit
import json
import re
import shlex
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import yaml

from fedpan_exp.system.atomic_io import atomic_write, read_json
from fedpan_exp.system.errors import UserError, first_line
from fedpan_exp.tracking.runs import SWEEPS, RunEntry, listed_jobs

RECORDS = ("metrics.jsonl", "partition.csv", "summary.json")  # are archived as they are
EXTRACTED = "fedpan_exp_"  # prefix of the temporary folders
MEMBER = re.compile(
    r"[^/\\]+/(config\.yaml|status\.json|metrics\.jsonl|partition\.csv|summary\.json)|\.sweeps/[^/\\]+\.json"
)
ABOUT_THE_MACHINE = ("host", "process", "heartbeat")  # keys of status.json that others need not know
PATHS = ("runs", "dataset.root")  # settings that name folders of the machine


def write_archive(path: Path, runs: Sequence[RunEntry]) -> None:
    """Archive these runs, and the lists of sweeps in their folders."""

    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for run in runs:
                for name, text in _files(run).items():
                    archive.writestr(f"{run.name}/{name}", text)
            for listing in sorted({path for run in runs for path in run.folder.parent.glob(f"{SWEEPS}/*.json")}):
                archive.writestr(f"{SWEEPS}/{listing.name}", _shared_listing(listing))

    atomic_write(path, write)


def _files(run: RunEntry) -> dict[str, str]:
    """The text files of a run, without what concerns only the machine."""
    settings = dict(run.settings)
    settings["runs"] = "runs"
    if isinstance(settings.get("dataset"), dict):
        settings["dataset"] = {key: value for key, value in settings["dataset"].items() if key != "root"}
    status = {key: value for key, value in run.status_file.items() if key not in ABOUT_THE_MACHINE}
    status["command"] = _without_paths(status.get("command", []))
    texts = {"config.yaml": yaml.safe_dump(settings, sort_keys=False), "status.json": json.dumps(status, indent=2)}
    present = [name for name in RECORDS if (run.folder / name).exists()]
    return texts | {name: (run.folder / name).read_text(encoding="utf-8") for name in present}


def _shared_listing(path: Path) -> str:
    listing = read_json(path)
    command = shlex.join(_without_paths(shlex.split(str(listing.get("command", "")))))
    jobs = [job | {"overrides": _without_paths(job.get("overrides", []))} for job in listed_jobs(listing)]
    return json.dumps(listing | {"command": command, "jobs": jobs}, indent=2)


def _without_paths(args: Sequence[str]) -> list[str]:
    return [arg for arg in args if arg.partition("=")[0].lstrip("+") not in PATHS]


def as_folder(path: Path) -> Path:
    """The folder of run folders at `path`; an archive is extracted to a temporary one, once per process."""
    if path.is_dir():
        return path
    if not path.is_file():
        raise UserError(f"there is no folder {path}")
    return _extract(path, path.stat().st_mtime_ns)


def is_archived(run: Path) -> bool:
    """Whether a run folder was extracted from an archive, and so is temporary."""
    return run.parent.parent == Path(tempfile.gettempdir()) and run.parent.name.startswith(EXTRACTED)


@lru_cache
def _extract(path: Path, _changed: int) -> Path:
    """Extract what write_archive may have written, and nothing else; removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix=EXTRACTED))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if MEMBER.fullmatch(name)])
    except (OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} must be a folder of runs or their archive, got {first_line(error)}") from None
    return folder
