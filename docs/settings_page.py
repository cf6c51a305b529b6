"""The reference of all settings: names and defaults from schema and YAML files, meanings from their comments."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from fedpan_exp.algorithms import ALGORITHMS
from fedpan_exp.config import Experiment
from fedpan_exp.data import OWN_DATA, DatasetSettings
from fedpan_exp.federation import CheckpointSettings, Scene
from fedpan_exp.models import MODELS, Pan
from fedpan_exp.studies import load_studies
from fedpan_exp.system.paths import CONF
from fedpan_exp.tracking.logger import LoggerSettings
from fedpan_exp.training import FabricSettings, Training

SECTIONS: dict[str, list[type]] = {
    "": [Experiment],
    "dataset": [DatasetSettings, *OWN_DATA.values()],
    "model": list(MODELS.values()),
    "pan": [Pan],
    "algorithm": list(ALGORITHMS.values()),
    "fl_scene": [Scene],
    "study": list(load_studies().values()),
    "training": [Training],
    "fabric": [FabricSettings],
    "checkpoint": [CheckpointSettings],
    "logger": [LoggerSettings],
}
LINE = re.compile(r"(?P<indent> *)(?P<key>\w+): *(?P<value>.*?)(?: +# (?P<comment>.*))?")
FIELD = re.compile(r"    (?P<key>\w+): .*?  # (?:type: ignore\S* # )?(?P<comment>.*)")


@dataclass
class Setting:
    name: str  # dotted
    default: str = ""
    meaning: str = ""


def page() -> str:
    """The page, in Markdown."""
    parts = [
        "# Settings",
        "Every setting of `python -m fedpan_exp --cfg job`. Defaults are those of the default options; an option of a "
        "group may set others. `python -m fedpan_exp --help` lists the options.",
    ]
    for section in SECTIONS:
        parts.append(f"## {section or 'Outside the groups'}")
        if options := sorted((CONF / section).glob("*.yaml")) if section else []:
            rows = [f"| `{section}={path.stem}` | {_escape(_first_comment(path))} |" for path in options]
            parts.append("\n".join(["| option | |", "|---|---|", *rows]))
        rows = [f"| `{s.name}` | `{_escape(s.default)}` | {_escape(s.meaning)} |" for s in settings(section)]
        parts.append("\n".join(["| setting | default | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def settings(section: str) -> list[Setting]:
    """The settings of a section. What a YAML file states wins over the schema; the default option's file is first."""
    found: dict[str, Setting] = {}
    for setting in (setting for schema in SECTIONS[section] for setting in _of_schema(section, schema)):
        first = found.setdefault(setting.name, setting)
        first.meaning = first.meaning or setting.meaning
    for path in _files(section):
        for stated in _of_file(section, path):
            if (setting := found.get(stated.name)) is None:
                continue
            if not setting.meaning or path == _files(section)[0]:
                setting.meaning = stated.meaning or setting.meaning
            if path == _files(section)[0]:
                setting.default = stated.default
    return list(found.values())


def _files(section: str) -> list[Path]:
    root = CONF / "config.yaml"
    if not (CONF / section).is_dir() or not section:
        return [root]
    entries = yaml.safe_load(root.read_text(encoding="utf-8"))["defaults"]
    chosen = next(entry[section] for entry in entries if isinstance(entry, dict) and section in entry)
    paths = sorted((CONF / section).glob("*.yaml"))
    return sorted(paths, key=lambda path: path.stem != chosen)


def _of_schema(section: str, schema: type) -> Iterator[Setting]:
    comments: dict[str, str] = {}
    for base in reversed(schema.__mro__[:-1]):
        comments |= {m["key"]: m["comment"] for m in map(FIELD.fullmatch, inspect.getsource(base).splitlines()) if m}
    for field in fields(schema):
        if not section and field.name in SECTIONS:
            continue
        if dataclass_of := _nested(field.default_factory if field.default_factory is not MISSING else field.type):
            yield from _of_schema(f"{section}.{field.name}", dataclass_of)
            continue
        default = field.default if field.default is not MISSING else _made(field.default_factory)
        yield Setting(f"{section}.{field.name}".lstrip("."), _text(default), comments.get(field.name, ""))


def _nested(kind: Any) -> type | None:
    """A dataclass, also one that may be None."""
    candidates = [kind, *getattr(kind, "__args__", ())]
    return next((each for each in candidates if isinstance(each, type) and hasattr(each, "__dataclass_fields__")), None)


def _made(factory: Any) -> Any:
    return "" if factory is MISSING else factory()


def _of_file(section: str, path: Path) -> Iterator[Setting]:
    """The settings that a YAML file states, with the comments after them."""
    text = path.read_text(encoding="utf-8")
    is_absolute = not section or "# @package _global_" in text or path.name == "config.yaml"
    parents: list[str] = []
    for match in filter(None, map(LINE.fullmatch, text.splitlines())):
        parents = [*parents[: len(match["indent"]) // 2], match["key"]]
        name = ".".join(parents if is_absolute else [section, *parents])
        yield Setting(name, match["value"], match["comment"] or "")


def _first_comment(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(line.removeprefix("# ") for line in lines if line.startswith("# ") and not line.startswith("# @"))


def _text(value: Any) -> str:
    special = {None: "null", True: "true", False: "false"}
    return special[value] if value is None or isinstance(value, bool) else str(value)


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
