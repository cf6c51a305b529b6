"""Run folders as values: settings, records as columns, and marks for whatever is not whole."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedpan_exp.tracking.identity import NON_IDENTITY_KEYS
from fedpan_exp.tracking.runs import RunEntry

SIGNS = {"add": "PAN+", "mul": "PAN∘"}
# Settings of a PAN that go without saying.
PLAIN = {"T": 1, "encoding": "sine", "placement": "paper", "per_client": "shared", "own_share": 0.5}
VALUE = "summary/last5_acc"  # what runs are compared by unless said


@dataclass(frozen=True)
class Run:
    """A run folder, read once. Statistics take it only if it is `whole`."""

    entry: RunEntry
    columns: dict[str, np.ndarray]  # of metrics.jsonl; NaN or None where a line does not have it
    marks: tuple[str, ...] = ()  # what is wrong with its files

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def status(self) -> str:
        return self.entry.status

    @property
    def whole(self) -> bool:
        return self.status == "done" and not self.marks

    @property
    def trouble(self) -> str:
        """Why statistics leave it out; empty for a whole run."""
        words = [] if self.status == "done" else [self.entry.reason or self.status]
        return "; ".join([*words, *self.marks])

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All of them, by dotted name."""
        return flatten(self.entry.settings) if isinstance(self.entry.settings, dict) else {}

    @cached_property
    def identity_config(self) -> dict[str, Any]:
        """The settings that decide its numbers, by dotted name; PANs off is one setting, whatever A and T."""
        irrelevant = (
            *NON_IDENTITY_KEYS,
            *self.entry.status_file.get("irrelevant", ()),
        )  # to any run, and to this one's study
        kept = {name: value for name, value in self.settings.items() if not _belongs(name, irrelevant)}
        if self.is_off:
            kept = {name: value for name, value in kept.items() if not _belongs(name, ("pan",))} | {"pan.mode": "off"}
        return kept

    def key(self, *without: str) -> str:
        """Equal for runs that differ in nothing but these settings or groups."""
        kept = {name: value for name, value in self.identity_config.items() if not _belongs(name, without)}
        return json.dumps(kept, sort_keys=True, default=str)

    @property
    def is_off(self) -> bool:
        return self.entry.pans_off

    @cached_property
    def pan(self) -> str:
        """off, PAN+ 0.05, PAN∘ 0.1 T=8"""
        if self.is_off:
            return "off"
        pan = self._pan
        words = [SIGNS.get(str(pan.get("mode")), str(pan.get("mode"))), show(pan.get("A"))]
        rest = {name: value for name, value in pan.items() if name not in ("mode", "A") and value != PLAIN.get(name)}
        return " ".join([*words, *(f"{name}={show(value)}" for name, value in rest.items())])

    @property
    def _pan(self) -> dict[str, Any]:
        return {name.removeprefix("pan."): value for name, value in self.settings.items() if _belongs(name, ("pan",))}

    def setting(self, name: str, default: Any = None) -> Any:
        """fl_scene.alpha or, of a group, its name: algorithm."""
        if name == "pan":
            return self.pan
        if name.startswith("pan.") and self.is_off and name != "pan.mode":
            return 0.0 if name == "pan.A" else default
        return self.settings.get(name, self.settings.get(f"{name}.name", default))

    @property
    def seed(self) -> str:
        return show(self.setting("seed", 0))

    def number(self, name: str = VALUE) -> float | None:
        """Of the summary, if it is there and finite."""
        return _finite(self.entry.summary.get(name))

    def numbers(self, prefix: str) -> dict[str, float]:
        """Of the summary, by what comes after the prefix: summary/divergence/ -> {fc1: 0.3, ...}."""
        names = [name for name in self.entry.summary if name.startswith(prefix)]
        return {name.removeprefix(prefix): value for name in names if (value := self.number(name)) is not None}

    def floats(self, name: str) -> np.ndarray | None:
        """A column, unless it is words."""
        column = self.columns.get(name)
        return None if column is None or column.dtype == object else column

    def series(self, name: str, against: str = "round") -> tuple[np.ndarray, np.ndarray]:
        """Points (against, name) of all lines that have both."""
        x, y = self.floats(against), self.floats(name)
        if x is None or y is None:
            return np.empty(0), np.empty(0)
        there = np.isfinite(x) & np.isfinite(y)
        return x[there], y[there]

    @property
    def maker(self) -> str:
        """The version of the program that made it, and of torch."""
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
    return {name: found for name, found in values.items() if len(found) > 1}


def flatten(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """fl_scene.alpha rather than a tree."""
    values: dict[str, Any] = {}
    for name, value in settings.items():
        values |= flatten(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return values


def show(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _belongs(name: str, groups: Iterable[str]) -> bool:
    return any(name == group or name.startswith(group + ".") for group in groups)


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None
