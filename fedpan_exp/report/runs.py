"""Run folders as values: settings, metrics as columns, and defects of their files."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedpan_exp.tracking.identity import NON_IDENTITY_KEYS
from fedpan_exp.tracking.runs import RunEntry

PAN_NAMES = {"add": "PAN+", "mul": "PAN∘"}
PAN_DEFAULTS = {"T": 1, "encoding": "sine", "placement": "paper", "per_client": "shared", "own_share": 0.5}
VALUE = "summary/last5_acc"  # what runs are compared by, unless stated otherwise


@dataclass(frozen=True)
class Run:
    """A run folder, read once. Statistics include it only if it is `complete`."""

    entry: RunEntry
    columns: dict[str, np.ndarray]  # of metrics.jsonl; NaN or None where a line lacks the metric
    defects: tuple[str, ...] = ()  # of its files

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def status(self) -> str:
        return self.entry.status

    @property
    def complete(self) -> bool:
        return self.status == "done" and not self.defects

    @property
    def trouble(self) -> str:
        """Why statistics leave it out; empty for a complete run."""
        reasons = [] if self.status == "done" else [self.entry.reason or self.status]
        return "; ".join([*reasons, *self.defects])

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings by dotted name."""
        return flatten(self.entry.settings) if isinstance(self.entry.settings, dict) else {}

    @cached_property
    def identity_config(self) -> dict[str, Any]:
        """The settings that determine its numbers, by dotted name; PANs off is one setting, whatever A and T."""
        irrelevant = (*NON_IDENTITY_KEYS, *self.entry.status_file.get("irrelevant", ()))  # to all runs, to its study
        if self.is_off:
            irrelevant = (*irrelevant, "pan")
        relevant = {name: value for name, value in self.settings.items() if not _belongs(name, irrelevant)}
        return relevant | {"pan.mode": "off"} if self.is_off else relevant

    def key(self, *without: str) -> str:
        """Equal for runs that differ only in these settings or groups."""
        rest = {name: value for name, value in self.identity_config.items() if not _belongs(name, without)}
        return json.dumps(rest, sort_keys=True, default=str)

    @property
    def is_off(self) -> bool:
        return self.entry.pans_off

    @cached_property
    def pan(self) -> str:
        """A label such as: off, PAN+ 0.05, PAN∘ 0.1 T=8"""
        if self.is_off:
            return "off"
        pan = self._pan
        parts = [PAN_NAMES.get(str(pan.get("mode")), str(pan.get("mode"))), show(pan.get("A"))]
        rest = {
            name: value for name, value in pan.items() if name not in ("mode", "A") and value != PAN_DEFAULTS.get(name)
        }
        return " ".join([*parts, *(f"{name}={show(value)}" for name, value in rest.items())])

    @property
    def _pan(self) -> dict[str, Any]:
        return {name.removeprefix("pan."): value for name, value in self.settings.items() if _belongs(name, ("pan",))}

    def setting(self, name: str, default: Any = None) -> Any:
        """The value of a setting such as fl_scene.alpha, or the name of a group such as algorithm."""
        if name == "pan":
            return self.pan
        if name.startswith("pan.") and self.is_off and name != "pan.mode":
            return 0.0 if name == "pan.A" else default
        return self.settings.get(name, self.settings.get(f"{name}.name", default))

    @property
    def seed(self) -> str:
        return show(self.setting("seed", 0))

    def number(self, name: str = VALUE) -> float | None:
        """A value of the summary, if present and finite."""
        return _finite(self.entry.summary.get(name))

    def numbers(self, prefix: str) -> dict[str, float]:
        """Values of the summary by what follows the prefix: summary/divergence/ -> {fc1: 0.3, ...}."""
        names = [name for name in self.entry.summary if name.startswith(prefix)]
        return {name.removeprefix(prefix): value for name in names if (value := self.number(name)) is not None}

    def floats(self, name: str) -> np.ndarray | None:
        """A column, unless it is text."""
        column = self.columns.get(name)
        return None if column is None or column.dtype == object else column

    def series(self, name: str, against: str = "round") -> tuple[np.ndarray, np.ndarray]:
        """The columns (against, name) of all lines that have both."""
        x, y = self.floats(against), self.floats(name)
        if x is None or y is None:
            return np.empty(0), np.empty(0)
        finite = np.isfinite(x) & np.isfinite(y)
        return x[finite], y[finite]

    @property
    def versions(self) -> str:
        """Versions of the package and of torch that the run was made with."""
        versions = self.entry.status_file.get("versions")
        versions = versions if isinstance(versions, dict) else {}
        git = str(self.entry.status_file.get("git") or "")
        commit = f" ({git[:7]}{'+changes' if git.endswith('+changes') else ''})" if git else ""
        return f"fedpan_exp {versions.get('fedpan_exp', '?')}{commit}, torch {versions.get('torch', '?')}"


def differing(runs: Iterable[Run], *without: str) -> dict[str, list[Any]]:
    """The settings in which runs differ, with their values in order of appearance."""
    runs = list(runs)
    names = dict.fromkeys(name for run in runs for name in run.identity_config if not _belongs(name, without))
    values = {
        name: list({show(run.identity_config.get(name)): run.identity_config.get(name) for run in runs}.values())
        for name in names
    }
    return {name: distinct for name, distinct in values.items() if len(distinct) > 1}


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested mapping by dotted names such as fl_scene.alpha."""
    values: dict[str, Any] = {}
    for name, value in settings.items():
        values |= flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return values


def show(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _belongs(name: str, groups: Iterable[str]) -> bool:
    return any(name == group or name.startswith(group + ".") for group in groups)


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None
