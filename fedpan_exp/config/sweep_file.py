"""The YAML files in sweeps/: ordinary settings that all jobs share, plus the grids that the sweep runs over."""

from pathlib import Path
from typing import Any

import yaml

from fedpan_exp.system.errors import ConfigError, first_line

GRID_KEYS = ("for_each", "grids", "scales")  # the keys that are not settings


def as_config(path: Path) -> dict[str, Any]:
    """Return a sweep file as Hydra composes it: without its grids, which the sweeper reads from the file.

    Hydra copies everything it has been given for every job that it composes.
    """
    content = _read(path)
    if any(key in content for key in GRID_KEYS):
        content["hydra"] = {"mode": "MULTIRUN", "sweeper": {"file": str(path)}} | content.get("hydra", {})
    return {key: value for key, value in content.items() if key not in GRID_KEYS}


def read_grids(path: Path) -> dict[str, Any]:
    content = _read(path)
    return {key: content[key] for key in GRID_KEYS if key in content}


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} must be a YAML file, got an error: {first_line(error)}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must be settings and their values, got {content}")
    return content
