"""The run folder: config, one JSON line a measurement, summary, status, weights."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from safetensors.torch import save_file
from torch import Tensor

from fedpan_exp.checks import ConfigError, Diverged
from fedpan_exp.tracking.files import read_json, write_json, write_text, write_whole
from fedpan_exp.tracking.identity import run_name
from fedpan_exp.tracking.logger import Log, LoggerSettings
from fedpan_exp.tracking.provenance import provenance

FINISHED = ("done", "diverged")


class Record:
    """One run's folder, readable at any moment. Nothing is made before `begin`, so a refused setting leaves nothing."""

    def __init__(self, settings: dict[str, Any], logger: LoggerSettings, irrelevant: Sequence[str] = ()):
        self.settings, self._logger = settings, logger
        self.name = run_name(settings, irrelevant)
        self.group = run_name(settings, (*irrelevant, "seed"))  # what the seeds of one setting share
        self.folder = Path(settings["runs"]) / self.name
        self._log: Log | None = None
        self._begun = False
        self._summary: dict[str, Any] = {}
        self._origin = {"started": _now(), **provenance()}  # of the start: a checkout may move on meanwhile

    @property
    def status(self) -> str | None:
        """Of an earlier run of the same settings."""
        return read_json(self.folder / "status.json").get("status")

    def begin(self) -> None:
        """Make the folder; what an unfinished or forced-again run left there is replaced."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._set_status("running")
            for old in ("summary.json", "metrics.jsonl", "weights.safetensors", "curves.png"):
                (self.folder / old).unlink(missing_ok=True)
            write_text(self.folder / "config.yaml", yaml.safe_dump(self.settings, sort_keys=False))
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(
                f"runs must be a folder that can be written, got {self.folder.parent} ({reason})"
            ) from None
        self._begun = True
        self._log = self._logger.open(self.name, self.group, str(self.folder), self.settings)

    def write(self, turn: int, metrics: Mapping[str, float]) -> None:
        """One line, in one piece."""
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"round": turn, **metrics}) + "\n")
        if self._log:
            self._log.write(dict(metrics), turn)

    def summarise(self, summary: Mapping[str, Any]) -> None:
        self._summary = dict(summary)
        write_json(self.folder / "summary.json", self._summary)

    def save_weights(self, state: Mapping[str, Tensor]) -> None:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
        write_whole(self.folder / "weights.safetensors", lambda path: save_file(tensors, path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._begun:
            return
        status = {type(None): "done", KeyboardInterrupt: "interrupted", Diverged: "diverged"}.get(type(error), "failed")
        self._set_status(status, str(error) if error else None)
        if self._log:
            self._log.finish(self._summary, status)

    def _set_status(self, status: str, reason: str | None = None) -> None:
        ended = {} if status == "running" else {"ended": _now()}
        why = {"reason": reason} if reason else {}
        content = {"status": status, **why, "seed": self.settings["seed"], **ended, **self._origin}
        write_json(self.folder / "status.json", content)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
