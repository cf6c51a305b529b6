"""Loggers that mirror metrics.jsonl: CSV and TensorBoard here; W&B, Trackio and MLflow have files of their own."""

import csv
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fedpan_exp.system.atomic_io import atomic_write
from fedpan_exp.system.console import warn
from fedpan_exp.system.errors import first_line


@dataclass(frozen=True)
class RunInfo:
    """The run that a logger logs."""

    name: str
    id: str
    group: str  # shared by the seeds of one setting
    folder: Path
    settings: Mapping[str, Any]
    pans_off: bool
    is_resumed: bool  # earlier rounds will be logged again


class MetricLogger(Protocol):
    """Receives every round from the first; after a resume, the earlier rounds again."""

    def log_metrics(self, metrics: Mapping[str, Any], round_idx: int) -> None: ...

    def finish(self, summary: Mapping[str, Any], status: str) -> None: ...


class GuardedLogger:
    """Passes all calls on to a logger. Its first failure costs one warning and ends it, but never the run."""

    def __init__(self, name: str, open_logger: Callable[[], MetricLogger]):
        self._name = name
        self._logger: MetricLogger | None = None
        with self._guard():
            self._logger = open_logger()

    def log_metrics(self, metrics: Mapping[str, Any], round_idx: int) -> None:
        if self._logger:
            with self._guard():
                self._logger.log_metrics(metrics, round_idx)

    def finish(self, summary: Mapping[str, Any], status: str) -> None:
        if self._logger:
            with self._guard():
                self._logger.finish(summary, status)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # no server, no space, no package: each logger raises its own
            self._logger = None
            warn(f"{self._name} failed ({first_line(error)}); the run continues with local files only")


class CsvLogger:
    """Writes metrics.csv, one row per round."""

    def __init__(self, run: RunInfo):
        self._path = run.folder / "metrics.csv"
        self._rows: list[dict[str, Any]] = []

    def log_metrics(self, metrics: Mapping[str, Any], round_idx: int) -> None:
        self._rows.append({"round": round_idx, **metrics})

    def finish(self, summary: Mapping[str, Any], status: str) -> None:
        columns = list(dict.fromkeys(name for row in self._rows for name in row))

        def write(path: Path) -> None:
            with path.open("w", newline="", encoding="utf-8") as file:
                table = csv.DictWriter(file, columns)
                table.writeheader()
                table.writerows(self._rows)

        try:
            atomic_write(self._path, write)
        except OSError as error:
            warn(f"{self._path} could not be written ({first_line(error)}); metrics.jsonl has the same records")


class TensorBoardLogger:
    """Writes tensorboard/, for `tensorboard --logdir runs`."""

    def __init__(self, run: RunInfo):
        from torch.utils.tensorboard import SummaryWriter  # slow to import

        folder = run.folder / "tensorboard"
        shutil.rmtree(folder, ignore_errors=True)  # all rounds will be logged again
        self._writer = SummaryWriter(str(folder))
        settings = "\n".join(f"    {name}: {value}" for name, value in flat(run.settings).items())
        self._writer.add_text("settings", settings)

    def log_metrics(self, metrics: Mapping[str, Any], round_idx: int) -> None:
        for name, value in numbers(metrics).items():
            self._writer.add_scalar(name, value, round_idx)

    def finish(self, summary: Mapping[str, Any], status: str) -> None:
        self._writer.close()


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if isinstance(value, int | float)}


def flat(settings: Mapping[str, Any], separator: str = "/", prefix: str = "") -> dict[str, Any]:
    """Flatten nested settings to names like fl_scene/alpha; W&B advises against dots in names."""
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            values |= flat(value, separator, f"{prefix}{name}{separator}")
        else:
            values[f"{prefix}{name}"] = value
    return values
