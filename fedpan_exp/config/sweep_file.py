"""The YAML files in sweeps/: ordinary settings that all jobs share, plus the grids that the sweep runs over."""

from pathlib import Path
from typing import Any

import yaml

from fedpan_exp.system.errors import ConfigError, first_line

GRID_KEYS = ("for_each", "grids", "scales")  # the keys that are not settings


def as_config(path: Path) -> dict[str, Any]:
    """Return a sweep file as Hydra composes it: the grids are settings of the sweeper, and there are several jobs."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} must be a YAML file, got an error: {first_line(error)}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must be settings and their values, got {content}")
    grids = {key: content.pop(key) for key in GRID_KEYS if key in content}
    if grids:
        content["hydra"] = {"mode": "MULTIRUN", "sweeper": grids} | content.get("hydra", {})
    return content
