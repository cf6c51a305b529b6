"""Read run folders: which runs are done, running or failed, and why."""

import json
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from fedpan_exp.system.atomic_io import read_json
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.tracking.identity import is_off
from fedpan_exp.tracking.lock import is_locked

FINISHED = ("done", "diverged")
UNFINISHED = ("interrupted", "failed")
SWEEPS = ".sweeps"  # folder next to the run folders, with a list of the runs of each sweep
TAIL_BYTES = 8192  # longer than any record


@dataclass(frozen=True)
class RunEntry:
    """One run folder, read lazily from its files."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def status_file(self) -> dict[str, Any]:
        return read_json(self.folder / "status.json")

    @cached_property
    def status(self) -> str:
        """The recorded status; a run whose process is dead counts as interrupted."""
        status = self.status_file.get("status", "unreadable" if self.folder.is_dir() else "missing")
        return "interrupted" if status == "running" and not is_locked(self.folder) else status

    @property
    def reason(self) -> str:
        if self.status == "interrupted" and self.status_file.get("status") == "running":
            status = self.status_file
            last = status.get("heartbeat", "unknown")
            return f"its process {status.get('process')} on {status.get('host')} is gone, last heartbeat {last}"
        return self.status_file.get("reason", "")

    @cached_property
    def rounds(self) -> int:
        """The number of recorded rounds."""
        try:
            with (self.folder / "metrics.jsonl").open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
                lines = file.read().split(b"\n")[:-1]  # after the last newline there is nothing, or half a line
            return json.loads(lines[-1])["round"] if lines else 0
        except (OSError, ValueError, KeyError):
            return 0

    @property
    def total_rounds(self) -> int | None:
        """The rounds or epochs of the whole run; None for other measurements, and for runs of older versions."""
        return self.status_file.get("total_rounds")

    @cached_property
    def settings(self) -> dict[str, Any]:
        """config.yaml; empty if it is missing or damaged."""
        try:
            content = yaml.load((self.folder / "config.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        except (OSError, ValueError, yaml.YAMLError):
            return {}
        return content if isinstance(content, dict) else {}

    @cached_property
    def summary(self) -> dict[str, Any]:
        return read_json(self.folder / "summary.json")

    @property
    def pans_off(self) -> bool:
        """Whether PANs are off, as recorded. Runs of older versions did not record it: mode and A decide."""
        if "pans" in self.status_file:
            return self.status_file["pans"] == "off"
        pan = self.settings.get("pan")
        return is_off(pan if isinstance(pan, dict) else {})

    def setting(self, name: str) -> Any:
        """Look up a setting such as fl_scene.alpha, the option of a group such as algorithm, or `status`."""
        if name == "status":
            return self.status
        value: Any = self.settings
        for key in name.split("."):
            if not isinstance(value, dict) or key not in value:
                raise KeyError(name)
            value = value[key]
        return value.get("name", value.get("mode", value)) if isinstance(value, dict) else value

    @property
    def command(self) -> str:
        """The command that resumes or repeats the run."""
        recorded = [arg for arg in self.status_file.get("command", []) if not arg.lstrip("+").startswith("rerun=")]
        overrides = ["hydra.mode=RUN", *recorded]  # one run, also for a job of a sweep
        runs = f"runs={self.folder.parent}"
        return shlex.join(["python", "-m", "fedpan_exp", *overrides, *([] if runs in overrides else [runs])])


def find_runs(folders: Iterable[Path], filters: Sequence[str] = (), sweep: str | None = None) -> list[RunEntry]:
    """Find the run folders with the given settings, such as algorithm=scaffold or status=failed.

    With `sweep`, only the runs that this sweep covers; their folders may be missing.
    """
    wanted = [_parse_filter(text) for text in filters]
    if sweep:
        runs = _runs_of_sweep(list(folders), sweep)
    else:
        runs = [RunEntry(path.parent) for folder in folders for path in sorted(folder.glob("*/status.json"))]
    unknown = [name for name, _ in wanted if runs and not any(_has(run, name) for run in runs)]
    if unknown:
        raise ConfigError(f"{unknown[0]} is not a setting of any of these runs")
    return [run for run in runs if all(_matches(run, name, value) for name, value in wanted)]


def _runs_of_sweep(folders: Sequence[Path], sweep: str) -> list[RunEntry]:
    lists = {path: read_json(path) for folder in folders for path in sorted(folder.glob(f"{SWEEPS}/*.json"))}
    chosen = {path: content for path, content in lists.items() if content.get("sweep") == sweep}
    if not chosen:
        started = ", ".join(sorted({str(content.get("sweep")) for content in lists.values()})) or "none"
        raise ConfigError(f"--sweep must be a sweep that was started in these folders ({started}), got {sweep}")
    runs = dict.fromkeys(
        path.parents[1] / job["run"] for path, content in chosen.items() for job in listed_jobs(content)
    )
    return [RunEntry(folder) for folder in runs]


def listed_jobs(listing: dict[str, Any]) -> list[dict[str, Any]]:
    """The jobs in a sweep's list of runs, without entries that were damaged by hand."""
    jobs = listing.get("jobs")
    return [job for job in jobs if isinstance(job, dict) and "run" in job] if isinstance(jobs, list) else []


def _parse_filter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"a filter must be setting=value, got {text}")
    try:
        return name, float(value)
    except ValueError:
        return name, {"true": True, "false": False, "null": None}.get(value, value)


def _has(entry: RunEntry, name: str) -> bool:
    try:
        entry.setting(name)
        return True
    except KeyError:
        return False


def _matches(entry: RunEntry, name: str, value: Any) -> bool:
    if not _has(entry, name):
        return False
    actual = entry.setting(name)
    return actual == value or str(actual) == str(value)  # 1 equals 1.0; "off" stays a string
