"""The names of all settings as the YAML files in conf/ have them, read without Hydra and without the schemas."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fedpan_exp.system.paths import CONF

GLOBAL_PACKAGE = re.compile(r"^# *@package +_global_ *$", re.MULTILINE)  # in a YAML file


def groups() -> list[str]:
    return sorted(path.name for path in CONF.iterdir() if path.is_dir() and path.name != "hydra")


def names_in_group(group: str) -> list[str]:
    """The settings that any option of a group has, in the order of the files."""
    return list(dict.fromkeys(key for path in sorted((CONF / group).glob("*.yaml")) for key in _read(path)))


@cache
def all_names() -> frozenset[str]:
    """Every setting, with its sections: training, training.lr, ..."""
    names = {*groups(), "sweeps", *_names(_read(CONF / "config.yaml"))}
    for group in groups():
        for path in (CONF / group).glob("*.yaml"):
            is_global = GLOBAL_PACKAGE.search(path.read_text(encoding="utf-8"))
            names |= {*_names(_read(path), "" if is_global else f"{group}.")}
    return frozenset(names)


def _names(settings: Any, prefix: str = "") -> Iterator[str]:
    for key, value in settings.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _names(value, f"{prefix}{key}.")


@cache
def _read(path: Path) -> dict[str, Any]:
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return {key: value for key, value in content.items() if key not in ("defaults", "hydra")}
