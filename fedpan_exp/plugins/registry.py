"""The active plugins of this process: their entries are in our tables. Composing an experiment activates its own."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException

from fedpan_exp.plugins.kinds import BUILT_IN, KINDS
from fedpan_exp.plugins.plugin import Plugin, load_file, load_installed, unpin
from fedpan_exp.system.console import warn
from fedpan_exp.system.errors import ConfigError, UserError

GROUP = "fedpan_exp.plugins"
_active: list[Plugin] = []
_given: list[str] = []  # the setting `plugins` that activated them


def active() -> list[Plugin]:
    return list(_active)


def activate(given: Iterable[str]) -> None:
    """Make the installed plugins and those that are given, and no others, available by name in this process."""
    given = list(given)
    installed = _installed()
    plugins = [*installed.values(), *(load_file(path) for path in given if unpin(path)[0] not in installed)]
    wanted = list({plugin.file.resolve(): plugin for plugin in plugins}.values())  # a file given twice counts once
    owners: dict[tuple[str, str], Plugin] = {}
    for plugin in wanted:
        for table, names in plugin.entries.items():
            for name in names:
                other = owners.setdefault((table, name), plugin)
                if other is not plugin:
                    raise ConfigError(
                        f"plugins must have different names, got {name} in {other.name} and {plugin.name}"
                    )
    for kind in KINDS:
        for name in kind.entries.keys() - BUILT_IN[kind.table]:
            del kind.entries[name]
        for plugin in wanted:
            kind.entries.update(plugin.entries.get(kind.table, {}))
    _active[:], _given[:] = wanted, given


def ensure_active(given: Sequence[str]) -> None:
    """Activate plugins unless they are active. Unlike `activate`, it does not read their files again."""
    if list(given) != _given:
        activate(given)


def in_overrides(overrides: Sequence[str]) -> list[str]:
    """The plugins that a command line names, needed before Hydra can compose it."""
    given = [override for override in overrides if override.lstrip("+").startswith("plugins=")]
    try:
        values = [override.value() for override in OverridesParser.create().parse_overrides(given)]
    except OverrideParseException:
        return []  # Hydra reports it
    value = values[-1] if values else []
    if not isinstance(value, list):
        raise ConfigError(f"plugins must be a list, as in plugins=[mine.py], got {given[-1].partition('=')[2]}")
    return [str(path) for path in value]


def options() -> Iterator[tuple[str, str, Any, Plugin]]:
    """The group, name, entry and plugin of every option that plugins add to a config group."""
    for plugin, kind in ((plugin, kind) for plugin in _active for kind in KINDS if kind.is_group):
        for name, entry in plugin.entries.get(kind.table, {}).items():
            yield kind.setting, name, entry, plugin


def described() -> Iterator[tuple[str, str, str]]:
    """The setting, name and one line of description of everything that plugins add."""
    for plugin, kind in ((plugin, kind) for plugin in _active for kind in KINDS):
        for name, entry in plugin.entries.get(kind.table, {}).items():
            yield kind.setting, name, plugin.describe(kind.setting, name, entry)


def used(names: dict[str, Sequence[str]], classes: Iterable[type]) -> list[str]:
    """The plugins behind an experiment, with their content: by the names that its settings select, or its classes."""
    modules = {cls.__module__ for given in classes for cls in given.__mro__}
    found = []
    for plugin in _active:
        by_name = any(
            name in names.get(kind.setting, ()) for kind in KINDS for name in plugin.entries.get(kind.table, ())
        )
        entries = (entry for table in plugin.entries.values() for entry in table.values())
        if by_name or any(entry.__module__ in modules for entry in entries if isinstance(entry, type)):
            found.append(plugin.pinned)
    return found


@cache
def _installed() -> dict[str, Plugin]:
    """Plugins of installed packages. One that is broken is left out with a warning: other runs do not need it."""
    plugins = {}
    for entry in entry_points(group=GROUP):
        try:
            plugins[entry.name] = load_installed(entry)
        except UserError as error:
            warn(f"{error}; it is ignored")
    return plugins
