"""The run folder: config, one JSON line a measurement, summary, status, weights."""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from filelock import Timeout
from safetensors.torch import save_file
from torch import Tensor

from fedpan_exp.system.atomic_io import (
    WriteError,
    atomic_write,
    flush_to_disk,
    read_json,
    read_lines,
    write_json,
    write_text,
)
from fedpan_exp.system.console import warn
from fedpan_exp.system.errors import ConfigError, Diverged, first_line
from fedpan_exp.tracking.identity import is_off, run_id, run_name
from fedpan_exp.tracking.lock import RunLocked, lock_of, lock_owner
from fedpan_exp.tracking.logger import LoggerSettings
from fedpan_exp.tracking.logs import Log, Run
from fedpan_exp.tracking.provenance import provenance

FINISHED = ("done", "diverged")
CHECKPOINT = "checkpoint"  # the folder of what a finished run needs no more
HEARTBEAT = 15  # seconds between two signs of life


class Record:
    """One run's folder, readable at any moment. Nothing is made before `hold`, so a refused setting leaves nothing."""

    def __init__(
        self,
        settings: dict[str, Any],
        logger: LoggerSettings,
        irrelevant: Sequence[str] = (),
        command: Sequence[str] = (),
        draw: Callable[[Path], object] = lambda folder: None,
        pans_off: bool = False,
    ):
        self.settings, self._logger = settings, logger
        self.pans_off = pans_off or is_off(settings["pan"])
        self.name = run_name(settings, irrelevant, pans_off)
        self.group = run_name(settings, (*irrelevant, "seed"), pans_off)  # what the seeds of one setting share
        self.folder = Path(settings["runs"]) / self.name
        self._draw = draw
        self._lock = lock_of(self.folder)
        self._logs: list[Log] = []
        self._summary: dict[str, Any] = {}
        self._last_beat = time.monotonic()
        self._origin = {  # of the start: a checkout may move on meanwhile
            "irrelevant": list(irrelevant),
            "id": run_id(settings, irrelevant, pans_off),
            "seed": settings["seed"],
            "command": list(command),
            "started": _now(),
            "process": os.getpid(),
            **provenance(),
        }

    @property
    def status(self) -> str | None:
        """Of this run, or of an earlier one of the same settings."""
        return read_json(self.folder / "status.json").get("status")

    @property
    def position(self) -> int:
        """Bytes of records, all of them on disk."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return 0
        flush_to_disk(path)
        return path.stat().st_size

    def lock(self) -> None:
        """Make the folder, and take the run: of several processes, one works, and the others say who."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0.5)
        except Timeout:
            raise RunLocked(
                f"{self.folder} is being worked on by {lock_owner(self.folder)}; wait for it, or end it"
            ) from None
        except OSError as error:
            raise self._not_writable(error) from None
        if self.status in FINISHED and not self.settings["rerun"]:
            self._lock.release()
            raise RunLocked(f"{self.folder} has just been finished by another process; the same command shows it")
        try:
            self._write_status("running")
        except WriteError as error:
            self._lock.release()
            raise self._not_writable(error) from None

    def start(self, keep: int = 0) -> list[dict[str, Any]]:
        """Start the records, behind `keep` bytes of earlier ones, which are returned; anything else is replaced."""
        if not self._lock.is_locked:
            self.lock()
        records = self.folder / "metrics.jsonl"
        for old in ("summary.json", "weights.safetensors", *(path.name for path in self.folder.glob("*.png"))):
            (self.folder / old).unlink(missing_ok=True)
        if keep:
            os.truncate(records, keep)  # what came after the checkpoint will come again
        else:
            records.unlink(missing_ok=True)
        write_text(self.folder / "config.yaml", yaml.safe_dump(self.settings, sort_keys=False))
        earlier = read_lines(records) if keep else []
        self._logs = self._logger.open(
            Run(self.name, self._origin["id"], self.group, self.folder, self.settings, self.pans_off, bool(earlier))
        )
        for line in earlier:
            self._pass_on(line["round"], {name: value for name, value in line.items() if name != "round"})
        return earlier

    def write(self, round_idx: int, metrics: Mapping[str, Any]) -> None:
        """One line, in one piece."""
        try:
            with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps({"round": round_idx, **metrics}) + "\n")
        except OSError as error:
            raise WriteError(self.folder / "metrics.jsonl", error) from None
        self._pass_on(round_idx, dict(metrics))

    def heartbeat(self) -> None:
        """A sign of life for those who watch, not more often than is worth it."""
        if time.monotonic() - self._last_beat >= HEARTBEAT:
            self._last_beat = time.monotonic()
            self._set_status("running")

    def summarise(self, summary: Mapping[str, Any]) -> None:
        self._summary = dict(summary)
        write_json(self.folder / "summary.json", self._summary)

    def save_weights(self, state: Mapping[str, Tensor]) -> None:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
        atomic_write(self.folder / "weights.safetensors", lambda path: save_file(tensors, path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._lock.is_locked:
            return
        status = {type(None): "done", Diverged: "diverged"}.get(type(error), "failed")
        if isinstance(error, KeyboardInterrupt):
            status = "interrupted"
        self._try_to_draw()
        told = self._set_status(status, str(error) or type(error).__name__ if error else None)
        if told and status in FINISHED:
            shutil.rmtree(self.folder / CHECKPOINT, ignore_errors=True)
        for log in self._logs:  # last: they may wait for a network
            log.finish(self._summary, status)
        self._lock.release()

    def _try_to_draw(self) -> None:
        try:
            self._draw(self.folder)
        except Exception as error:  # a picture is not worth a run
            warn(f"the pictures could not be drawn ({first_line(error)})")

    def _pass_on(self, round_idx: int, metrics: dict[str, Any]) -> None:
        for log in self._logs:
            log.write(metrics, round_idx)

    def _set_status(self, status: str, reason: str | None = None) -> bool:
        """Whether it could be written."""
        try:
            self._write_status(status, reason)
            return True
        except WriteError as error:
            warn(str(error))
            return False

    def _write_status(self, status: str, reason: str | None = None) -> None:
        times = {"heartbeat" if status == "running" else "ended": _now()}
        why = {"reason": reason} if reason else {}
        write_json(self.folder / "status.json", {"status": status, **why, **times, **self._origin})

    def _not_writable(self, error: Exception) -> ConfigError:
        reason = error.reason if isinstance(error, WriteError) else first_line(error)
        return ConfigError(f"runs must be a folder that can be written, got {self.folder.parent} ({reason})")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
