"""What a plugin may add: the tables, and what an entry must be, so that it fails before a run and in one line."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fedpan_exp.algorithms import ALGORITHMS, FedAvg
from fedpan_exp.data.dataset import LOADERS
from fedpan_exp.data.partition import PARTITIONERS, kinds
from fedpan_exp.models import ENCODINGS, MODELS, ModelSettings
from fedpan_exp.models.encodings import encode_positions
from fedpan_exp.probes import PROBES
from fedpan_exp.system.errors import first_line
from fedpan_exp.system.paths import CONF

STUDIES: dict[str, type] = {}  # of plugins alone: ours are built on top of this package


@dataclass(frozen=True)
class Kind:
    table: str  # its name in a plugin
    setting: str  # what selects an entry
    entries: dict[str, Any]  # where ours are, and those of active plugins
    check: Callable[[str, Any], str | None]  # what is wrong with an entry; it completes "... must"
    is_group: bool = False  # whether the setting is a config group

    def is_built_in(self, name: str) -> bool:
        has_option = self.is_group and (CONF / self.setting / f"{name}.yaml").exists()
        return has_option or name in BUILT_IN[self.table]


def _check_settings(base: type) -> Callable[[str, Any], str | None]:
    """A dataclass that extends `base`, whose hooks have the arguments of the base's."""

    def check(name: str, entry: Any) -> str | None:
        if not (isinstance(entry, type) and issubclass(entry, base)):
            return f"be a class that extends {base.__name__}, got {entry!r}"
        return _check_dataclass(name, entry) or _check_hooks(entry, base)

    return check


def _check_dataclass(name: str, entry: type) -> str | None:
    if "__dataclass_fields__" not in vars(entry):
        return f"have @dataclass above class {entry.__name__}"
    if getattr(entry, "name", None) != name:
        return f'have the line name: str = "{name}", got {getattr(entry, "name", None)!r}'
    try:
        OmegaConf.structured(entry)
    except OmegaConfBaseException as error:
        return f"have settings of types that Hydra knows: {first_line(error)}"
    return None


def _check_hooks(entry: type, base: type) -> str | None:
    for hook, ours in inspect.getmembers(base, inspect.isfunction):
        theirs = getattr(entry, hook)
        if hook.startswith("_") or theirs is ours or not callable(theirs):
            continue
        expected, got = (list(inspect.signature(function).parameters) for function in (ours, theirs))
        if len(expected) != len(got):
            return f"have {hook}({', '.join(expected)}), got {hook}({', '.join(got)})"
    return _check_spelling(entry, base)


def _check_spelling(entry: type, base: type) -> str | None:
    """A misspelt hook would never be called."""
    hooks = [name for name, _ in inspect.getmembers(base, inspect.isfunction) if name[0] != "_"]
    for name in (name for name, value in vars(entry).items() if inspect.isfunction(value)):
        near = get_close_matches(name, hooks, n=1, cutoff=0.85)
        if near and not any(hasattr(cls, name) for cls in entry.__mro__[1:]):
            return f"have another name for {name}, which is not a hook; did you mean {near[0]}?"
    return None


def _check_model(name: str, entry: Any) -> str | None:
    problem = _check_settings(ModelSettings)(name, entry)
    return problem or ("have the method build" if entry.build is ModelSettings.build else None)


def _check_study(name: str, entry: Any) -> str | None:
    if not (isinstance(entry, type) and any(base.__name__ == "Study" for base in entry.__mro__)):
        return f"be a class that extends Study, got {entry!r}"
    missing = sorted(getattr(entry, "__abstractmethods__", ()))
    return f"have the method {missing[0]}" if missing else _check_dataclass(name, entry)


def _check_probe(name: str, entry: Any) -> str | None:
    if not isinstance(entry, type) or not callable(getattr(entry, "measure", None)):
        return "be a class with the method measure(snapshot)"
    return _check_arguments(entry, "trainer, clients, test")


def _check_encoding(name: str, entry: Any) -> str | None:
    if problem := _check_arguments(entry, "J, T"):
        return problem
    try:
        encode_positions(entry, 8, 1.0)  # other widths and periods when a network is built
    except ValueError as error:
        return str(error)
    return None


def _check_arguments(function: Any, arguments: str) -> str | None:
    try:
        inspect.signature(function).bind(*arguments.split(", "))
    except (TypeError, ValueError):
        return f"be a function of ({arguments})" if not isinstance(function, type) else f"be created by ({arguments})"
    return None


KINDS = (
    Kind("ALGORITHMS", "algorithm", ALGORITHMS, _check_settings(FedAvg), is_group=True),
    Kind("MODELS", "model", MODELS, _check_model, is_group=True),
    Kind("DATASETS", "dataset", LOADERS, lambda _, entry: _check_arguments(entry, "root"), is_group=True),
    Kind("STUDIES", "study", STUDIES, _check_study, is_group=True),
    Kind("PARTITIONERS", "fl_scene.partition", PARTITIONERS, lambda _, e: _check_arguments(e, "labels, config, rng")),
    Kind("ENCODINGS", "pan.encoding", ENCODINGS, _check_encoding),
    Kind("PROBES", "probes", PROBES, _check_probe),
)
BUILT_IN = {kind.table: frozenset(kind.entries) for kind in KINDS} | {"PARTITIONERS": frozenset(kinds())}
