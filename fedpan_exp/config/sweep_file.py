"""The YAML files in sweeps/: ordinary settings that all jobs share, plus the grids that the sweep runs over."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fedpan_exp.system.errors import ConfigError

GRID_KEYS = ("for_each", "grids", "scales")  # the keys that are not settings


def shared_settings(path: Path) -> dict[str, Any]:
    """The settings that all jobs of a sweep share, for Hydra to compose."""
    return {key: value for key, value in read_sweep_file(path).items() if key not in GRID_KEYS}


def read_sweep_file(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    for key in ("for_each", "grids"):
        lists = content.get(key, [{}])
        if not isinstance(lists, list) or not lists or not all(isinstance(one, Mapping) for one in lists):
            raise ConfigError(f"{key} in {path} must be a list of settings and their values, got {lists}")
    for setting, values in (pair for grid in content.get("grids", []) for pair in grid.items()):
        if values in (None, "", []):
            raise ConfigError(f"{setting} in {path} must have values, got none")
    return content
