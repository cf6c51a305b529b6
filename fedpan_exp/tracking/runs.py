"""All runs of a folder at a glance: who is done, who works, who failed and why."""

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
from fedpan_exp.tracking.lock import is_locked

UNFINISHED = ("interrupted", "failed")
SWEEPS = ".sweeps"  # beside the run folders: a list of the runs of each sweep
TAIL = 8192  # bytes; a record is shorter


@dataclass(frozen=True)
class Entry:
    """One run folder, as its files tell."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def status_file(self) -> dict[str, Any]:
        return read_json(self.folder / "status.json")

    @cached_property
    def status(self) -> str:
        """A run that says it runs, but whose process is dead, was interrupted."""
        status = self.status_file.get("status", "unreadable" if self.folder.is_dir() else "missing")
        return "interrupted" if status == "running" and not is_locked(self.folder) else status

    @property
    def reason(self) -> str:
        if self.status == "interrupted" and self.status_file.get("status") == "running":
            status = self.status_file
            heard = status.get("heartbeat", "an unknown time")
            return f"its process {status.get('process')} on {status.get('host')} is gone, last heard of {heard}"
        return self.status_file.get("reason", "")

    @cached_property
    def rounds(self) -> int:
        """That were recorded."""
        try:
            with (self.folder / "metrics.jsonl").open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
                lines = file.read().split(b"\n")[:-1]  # behind the last line's end there is nothing, or half a line
            return json.loads(lines[-1])["round"] if lines else 0
        except (OSError, ValueError, KeyError):
            return 0

    @cached_property
    def settings(self) -> dict[str, Any]:
        try:
            return yaml.load((self.folder / "config.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader) or {}
        except (OSError, yaml.YAMLError):
            return {}

    @cached_property
    def summary(self) -> dict[str, Any]:
        return read_json(self.folder / "summary.json")

    def setting(self, name: str) -> Any:
        """algorithm or fl_scene.alpha; of a group, its name. `status` counts as one."""
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
        """What goes on with it, or does it again."""
        # A job of a sweep is one run here, with what the sweep set for it.
        words = [
            "hydra.mode=RUN",
            *(word for word in self.status_file.get("command", []) if word.lstrip("+")[:6] != "rerun="),
        ]
        runs = f"runs={self.folder.parent}"
        return shlex.join(["python", "-m", "fedpan_exp", *words, *([] if runs in words else [runs])])


def entries(folders: Iterable[Path], filters: Sequence[str] = (), sweep: str | None = None) -> list[Entry]:
    """Of all run folders below, those with these settings: algorithm=scaffold, fl_scene.alpha=0.1, status=failed; or of
    those a sweep covers, which may be missing."""
    wanted = [_filter(word) for word in filters]
    if sweep:
        found = _covered(list(folders), sweep)
    else:
        found = [Entry(path.parent) for folder in folders for path in sorted(folder.glob("*/status.json"))]
    unknown = [name for name, _ in wanted if found and not any(_has(entry, name) for entry in found)]
    if unknown:
        raise ConfigError(f"{unknown[0]} is not a setting of any run here")
    return [entry for entry in found if all(_matches(entry, name, value) for name, value in wanted)]


def _covered(folders: Sequence[Path], sweep: str) -> list[Entry]:
    lists = {path: read_json(path) for folder in folders for path in sorted(folder.glob(f"{SWEEPS}/*.json"))}
    chosen = {path: content for path, content in lists.items() if content.get("sweep") == sweep}
    if not chosen:
        there = sorted({str(content.get("sweep")) for content in lists.values()})
        raise ConfigError(
            f"--sweep must be a sweep that was started here ({', '.join(there) or 'none was'}), got {sweep}"
        )
    runs = dict.fromkeys(path.parents[1] / job["run"] for path, content in chosen.items() for job in content["jobs"])
    return [Entry(folder) for folder in runs]


def _filter(word: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals:
        raise ConfigError(f"a filter must be setting=value, got {word}")
    try:
        return name, float(value)
    except ValueError:
        return name, {"true": True, "false": False, "null": None}.get(value, value)


def _has(entry: Entry, name: str) -> bool:
    try:
        entry.setting(name)
        return True
    except KeyError:
        return False


def _matches(entry: Entry, name: str, value: Any) -> bool:
    if not _has(entry, name):
        return False
    found = entry.setting(name)
    return found == value or str(found) == str(value)  # 1 is 1.0, and off is not false
