"""The run folder: config, one JSON line per measurement, summary, status, weights."""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
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
from fedpan_exp.system.console import show_lines, warn, without_warnings
from fedpan_exp.system.errors import ConfigError, Diverged, first_line
from fedpan_exp.tracking.identity import RunIdentity
from fedpan_exp.tracking.lock import RunLocked, lock_of, lock_owner
from fedpan_exp.tracking.logger import LoggerSettings
from fedpan_exp.tracking.logs import MetricLogger, RunInfo
from fedpan_exp.tracking.provenance import provenance
from fedpan_exp.tracking.runs import FINISHED

CHECKPOINT = "checkpoint"  # subfolder, deleted when the run is finished
HEARTBEAT_S = 15


class Record:
    """The folder of one run, consistent at any moment. `lock` creates it; an invalid setting leaves nothing behind."""

    def __init__(
        self,
        settings: dict[str, Any],
        identity: RunIdentity,
        logger: LoggerSettings,
        command: Sequence[str] = (),
        draw: Callable[[Path], object] = lambda folder: None,
    ):
        self.settings, self.identity, self._logger = settings, identity, logger
        self.folder = Path(settings["runs"]) / identity.name
        self._draw = draw
        self._lock = lock_of(self.folder)
        self._loggers: list[MetricLogger] = []
        self._summary: dict[str, Any] = {}
        self._last_heartbeat = time.monotonic()
        self._origin = {  # collected at the start: the checkout may change during the run
            "irrelevant": list(identity.irrelevant),
            "id": identity.id,
            "pans": "off" if identity.pans_off else "on",
            "total_rounds": identity.total_rounds,
            "seed": settings["seed"],
            "command": list(command),
            "started": _now(),
            "process": os.getpid(),
            **provenance(),
        }

    @property
    def name(self) -> str:
        return self.identity.name

    @property
    def status(self) -> str | None:
        """The status of this run, or of an earlier one with the same settings."""
        return read_json(self.folder / "status.json").get("status")

    @property
    def metrics_bytes(self) -> int:
        """Size of metrics.jsonl in bytes, after flushing it to disk."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return 0
        flush_to_disk(path)
        return path.stat().st_size

    def lock(self) -> None:
        """Create the folder and lock it; raise RunLocked, with the owner, if another process has it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0.5)
        except Timeout:
            raise RunLocked(
                f"{self.folder} is locked by {lock_owner(self.folder)}; wait until it has finished, or stop it"
            ) from None
        except OSError as error:
            raise self._not_writable(error) from None
        if self.status in FINISHED and not self.settings["rerun"]:
            self._lock.release()
            raise RunLocked(
                f"{self.folder} has just been finished by another process; run the same command to see the results"
            )
        try:
            self._write_status("running")
        except WriteError as error:
            self._lock.release()
            self._remove_if_empty()
            raise self._not_writable(error) from None
        show_lines()  # the run begins: nothing it needs is missing

    def start(self, keep_bytes: int = 0) -> list[dict[str, Any]]:
        """Start metrics.jsonl after `keep_bytes` of earlier records, which are returned; delete all other results."""
        if not self._lock.is_locked:
            self.lock()
        records = self.folder / "metrics.jsonl"
        for old in ("summary.json", "weights.safetensors", *(path.name for path in self.folder.glob("*.png"))):
            (self.folder / old).unlink(missing_ok=True)
        if keep_bytes:
            os.truncate(records, keep_bytes)  # the rounds after the checkpoint will be run again
        else:
            records.unlink(missing_ok=True)
        write_text(self.folder / "config.yaml", yaml.safe_dump(self.settings, sort_keys=False))
        earlier = read_lines(records) if keep_bytes else []
        run, is_resumed = self.identity, bool(earlier)
        info = RunInfo(run.name, run.id, run.group, self.folder, self.settings, run.pans_off, is_resumed)
        self._loggers = self._logger.open(info)
        for line in earlier:
            self._log(line["round"], {name: value for name, value in line.items() if name != "round"})
        return earlier

    def copy_metrics(self, lines: bytes) -> None:
        """Begin metrics.jsonl with lines of another run; `start` keeps them."""
        atomic_write(self.folder / "metrics.jsonl", lambda path: path.write_bytes(lines))

    def write(self, round_idx: int, metrics: Mapping[str, Any]) -> None:
        """Append one line to metrics.jsonl, or nothing if the disk is full."""
        path = self.folder / "metrics.jsonl"
        size = path.stat().st_size if path.exists() else 0
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"round": round_idx, **metrics}) + "\n")
        except OSError as error:
            with suppress(OSError):
                os.truncate(path, size)
            raise WriteError.of(path, error) from None
        self._log(round_idx, dict(metrics))

    def heartbeat(self) -> None:
        """Update the time in status.json, at most every 15 seconds."""
        if time.monotonic() - self._last_heartbeat >= HEARTBEAT_S:
            self._last_heartbeat = time.monotonic()
            with suppress(WriteError):  # the next record will report it
                self._write_status("running")

    def write_summary(self, summary: Mapping[str, Any]) -> None:
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
            if error is None:  # a study that is finished without having begun
                raise ConfigError(f"study={self.settings['study']['name']} must call record.start()")
            return
        status = {type(None): "done", Diverged: "diverged"}.get(type(error), "failed")
        if isinstance(error, KeyboardInterrupt):
            status = "interrupted"
        disk_failed = isinstance(error, WriteError)
        with without_warnings() if disk_failed else nullcontext():  # its message covers all that follows from it
            if not disk_failed:
                self._draw_plots()
            is_written = self._set_status(status, str(error) or type(error).__name__ if error else None)
            if is_written and status in FINISHED:
                shutil.rmtree(self.folder / CHECKPOINT, ignore_errors=True)
            for logger in self._loggers:  # last: they may wait for a network
                logger.finish(self._summary, status)
        self._lock.release()

    def _draw_plots(self) -> None:
        try:
            self._draw(self.folder)
        except Exception as error:  # a failed plot must not fail the run
            warn(f"the plots could not be drawn ({first_line(error)})")

    def _log(self, round_idx: int, metrics: dict[str, Any]) -> None:
        for logger in self._loggers:
            logger.log_metrics(metrics, round_idx)

    def _set_status(self, status: str, reason: str | None = None) -> bool:
        """Write the status; return whether it could be written."""
        try:
            self._write_status(status, reason)
            return True
        except WriteError as error:
            warn(str(error))
            return False

    def _write_status(self, status: str, reason: str | None = None) -> None:
        times = {"heartbeat" if status == "running" else "ended": _now()}
        optional = {"reason": reason} if reason else {}
        write_json(self.folder / "status.json", {"status": status, **optional, **times, **self._origin})

    def _remove_if_empty(self) -> None:
        lock = Path(self._lock.lock_file)
        if list(self.folder.iterdir()) == [lock]:
            lock.unlink()
            self.folder.rmdir()

    def _not_writable(self, error: Exception) -> ConfigError:
        reason = error.reason if isinstance(error, WriteError) else first_line(error)
        return ConfigError(f"runs must be a folder that can be written, got {self.folder.parent} ({reason})")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
