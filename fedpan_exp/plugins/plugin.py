"""One plugin: import its module, read its tables, check their entries."""

import inspect
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

from fedpan_exp.plugins import files
from fedpan_exp.plugins.kinds import KINDS, Kind
from fedpan_exp.system.errors import ConfigError, first_line, listed

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Plugin:
    name: str  # as in the setting `plugins`: a path, or the name of an entry point
    file: Path
    content: str  # hash of its source
    entries: Mapping[str, Mapping[str, Any]]  # by the name of the table, then by name on the command line

    @property
    def pinned(self) -> str:
        """mine.py@3f2ab1c0: the plugin with its content."""
        return f"{self.name}@{self.content}"

    def option_file(self, group: str, name: str) -> Path | None:
        """The YAML file of an entry that is an option of a config group, if there is one next to the plugin."""
        path = self.file.parent / "conf" / group / f"{name}.yaml"
        return path if path.is_file() else None

    def describe(self, group: str, name: str, entry: Any) -> str:
        """One line for --help: the first comment of the YAML file, or the first line of the docstring."""
        path = self.option_file(group, name)
        comments = path.read_text(encoding="utf-8").splitlines() if path else []
        lines = [line.removeprefix("# ") for line in comments if line.startswith("# ") and not line.startswith("# @")]
        doc = "" if entry.__doc__ is None or entry.__doc__.startswith(f"{entry.__name__}(") else inspect.getdoc(entry)
        return (lines or (doc or "").splitlines() or [""])[0]


def load_file(given: str) -> Plugin:
    """Load a plugin from a path, with or without the content that it must have: mine.py, mine.py@3f2ab1c0."""
    name, expected = unpin(given)
    path = Path(name).expanduser()
    if not path.is_file():
        raise ConfigError(f"plugins must be Python files or installed plugins, got {name}, which is neither")
    content = files.content_hash(path)
    if expected and content != expected:
        raise ConfigError(f"plugins must have the content that {given} names, got {name}@{content}")
    return _read(name, path, content, _import(name, files.module_name(path)))


def load_installed(entry: EntryPoint) -> Plugin:
    module = _import(entry.name, entry.module)
    file = Path(module.__file__ or "")
    sources = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file]
    return _read(entry.name, file, files.content_hash(*sources), module)


def unpin(given: str) -> tuple[str, str]:
    """Separate mine.py@3f2ab1c0 into path and content; the content may be missing."""
    match = re.fullmatch(r"(.+)@([0-9a-f]{8})", given)
    return (match[1], match[2]) if match else (given, "")


def _import(name: str, module: str) -> ModuleType:
    try:
        return import_module(module)
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename
        ]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if len(lines) > 1 else None
        place = f" in line {line}" if line else ""
        raise ConfigError(
            f"the plugin {name} cannot be imported: {type(error).__name__}{place}: {first_line(error)}"
        ) from None


def _read(name: str, file: Path, content: str, module: ModuleType) -> Plugin:
    entries = {kind.table: _table(name, kind, module) for kind in KINDS if hasattr(module, kind.table)}
    if not any(entries.values()):
        tables = listed((kind.table for kind in KINDS), "or")
        raise ConfigError(f"the plugin {name} must have a table {tables}, as in ALGORITHMS = {{'mine': Mine}}")
    return Plugin(name, file, content, entries)


def _table(plugin: str, kind: Kind, module: ModuleType) -> dict[str, Any]:
    table = getattr(module, kind.table)
    if not isinstance(table, dict):
        raise ConfigError(f"{kind.table} of the plugin {plugin} must be a dict of names, got {type(table).__name__}")
    for name, entry in table.items():
        described = f"{kind.table}[{name!r}] of the plugin {plugin}"
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ConfigError(f"{described} must have a name of letters, digits and _")
        if kind.is_built_in(name):
            raise ConfigError(f"{described} must have another name: {kind.setting}={name} is built in")
        if problem := kind.check(name, entry):
            raise ConfigError(f"{described} must {problem}")
    return dict(table)
