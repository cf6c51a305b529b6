"""Expand the grids of a sweep into the overrides of its jobs, at a scale."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hydra.core.override_parser.types import Override

from fedpan_exp.config.sweep_file import read_grids
from fedpan_exp.sweeping.stand_ins import SCALES, stand_ins
from fedpan_exp.system.errors import ConfigError, require_choice


@dataclass(frozen=True)
class Grids:
    """A union of products of settings, as written in a sweep file. All None: the grid is on the command line."""

    grids: Any = None  # a list of {setting: values}; a grid may have scales of its own
    for_each: Any = None  # a list of {setting: value}, each combined with every grid
    scales: Any = None  # scale -> {setting: values} that replace those of the grids
    params: Any = None  # {setting: values} of every grid

    @classmethod
    def read(cls, file: str | None, params: Any) -> Self:
        """The grids of a sweep file, if there is one."""
        return cls(**(read_grids(Path(file)) if file else {}), params=params)

    def check(self, source: str) -> None:
        """Raise ConfigError if the grids cannot be expanded; `source` names their file in the message."""
        for key, lists in (("grids", self.grids), ("for_each", self.for_each)):
            if lists is not None and not (lists and isinstance(lists, list) and all(map(_is_mapping, lists))):
                raise ConfigError(f"{key} in {source} must be a list of settings and their values, got {lists}")
        grids = [*(self.grids or []), *(self.for_each or [])]
        scales = [each for each in (self.scales, *(grid.get("scales") for grid in grids)) if each is not None]
        for key, mapping in (("params", self.params or {}), *(("scales", each) for each in scales)):
            if not _is_mapping(mapping):
                raise ConfigError(f"{key} in {source} must be settings and their values, got {mapping}")
        for scale, settings in (pair for each in scales for pair in each.items()):
            require_choice(f"a scale in {source}", scale, SCALES)
            if not _is_mapping(settings):
                raise ConfigError(f"scales.{scale} in {source} must be settings and their values, got {settings}")
        at_scales = [settings for each in scales for settings in each.values()]
        groups = [self.params or {}, *grids, *at_scales]
        for setting, values in (pair for group in groups for pair in group.items()):
            if values in (None, "", []):
                raise ConfigError(f"{setting} in {source} must have values, got none")

    def expand(self, scale: str, typed: Mapping[str, Any]) -> list[list[str]]:
        """Return one list of overrides per grid, with values still to be swept over.

        `typed` are the settings on the command line, which replace those of the grids, and what stands in for them.
        """
        at_scale = (self.scales or {}).get(scale, {})
        expanded = []
        for shared, grid in itertools.product(self.for_each or [{}], self.grids or [{}]):
            chosen = (self.params or {}) | shared | grid
            own = chosen.pop("scales", {}).get(scale, {})
            if self.grids:
                effective = chosen | {key: value for key, value in typed.items() if key in chosen}
                chosen |= stand_ins(scale, effective, at_scale | own)
            expanded.append(tuple(f"{key}={value}" for key, value in chosen.items() if key not in typed))
        return [list(grid) for grid in dict.fromkeys(expanded)]  # stand-ins can make two grids equal


def product(overrides: Iterable[Override]) -> list[list[str]]:
    """Return the overrides of each job: every combination of the swept values. The last one of a setting counts."""
    choices: dict[str, list[str]] = {}
    for override in overrides:
        key = override.get_key_element()
        if override.is_discrete_sweep():
            choices[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
            if not choices[key]:
                raise ConfigError(f"{key} must have values, got none in {override.input_line}")
        elif override.is_sweep_override():
            raise ConfigError(f"{key} must be a list or a range of values in a grid, got {override.input_line}")
        else:
            choices[key] = [str(override.input_line)]
    return [list(job) for job in itertools.product(*choices.values())]


def swept_settings(jobs: Sequence[Sequence[str]]) -> list[str]:
    """Return the settings that differ between jobs, given the overrides of each."""
    named = [as_settings(overrides) for overrides in jobs]
    names = dict.fromkeys(name for settings in named for name in settings)
    return [name for name in names if len({settings.get(name) for settings in named}) > 1]


def as_settings(overrides: Iterable[str]) -> dict[str, str]:
    return dict(override.split("=", 1) for override in overrides if "=" in override)


def short_name(setting: str) -> str:
    return setting.removeprefix("fl_scene.")


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)
