"""Settings that nobody typed: one config group, or a sweep, chose them for another. Runs show them at the start."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hydra.conf import HydraConf
from omegaconf import DictConfig, OmegaConf

from fedpan_exp import plugins
from fedpan_exp.config.hydra_config import compose_config
from fedpan_exp.config.sweep_file import GRID_KEYS
from fedpan_exp.config.yaml_names import GLOBAL_PACKAGE
from fedpan_exp.system.paths import CONF, SWEEPS
from fedpan_exp.tracking.logs import flat


@dataclass(frozen=True)
class Choice:
    setting: str  # training.momentum, or a group: model
    value: Any
    chosen_by: str  # algorithm=scaffold


def find_choices(cfg: DictConfig, hydra: HydraConf, args: Sequence[str]) -> list[Choice]:
    """Compare the YAML of the chosen options with the composed config, leaving out what `args` set by hand."""
    options = {group: option for group, option in hydra.runtime.choices.items() if isinstance(option, str)}
    typed = {_key(arg) for arg in args}
    sections = tuple(f"{key}." for key in typed if key not in options)  # training={momentum: 0} sets all below it
    sweeper = "sweeps" if "sweeps" in options else "hydra/sweeper"
    choices = [
        Choice(_key(override), override.partition("=")[2], f"{sweeper}={options[sweeper]}")
        for override in hydra.overrides.task
    ]
    defaults, _ = _read(CONF / "config.yaml", "config")
    raw, resolved = (_flat(OmegaConf.to_container(cfg, resolve=resolve)) for resolve in (False, True))
    folders = [Path(source.path) for source in hydra.runtime.config_sources if source.schema == "file"]
    for group, option in options.items():
        for path in _files(folders, group, option):
            others, settings = _read(path, group)
            chosen_by = f"{group}={option}"
            choices += [
                Choice(other, wanted, chosen_by)
                for other, wanted in others.items()
                if wanted == options.get(other) != defaults.get(other)
            ]
            choices += [
                Choice(setting, resolved[setting], chosen_by)
                for setting, value in settings.items()
                if setting in raw and raw[setting] == value  # else another group has replaced it
            ]
    untyped = [choice for choice in choices if choice.setting not in typed and not choice.setting.startswith(sections)]
    return list({choice.setting: choice for choice in reversed(untyped)}.values())[::-1]  # the first of each setting


def find_changes(cfg: DictConfig, overrides: Sequence[str]) -> list[str]:
    """The overrides that change something: options other than the default, and settings with other values."""
    if not overrides:
        return []
    default_options, _ = _read(CONF / "config.yaml", "config")
    options = [override for override in overrides if _key(override) in default_options]
    defaults, chosen = (_flat(OmegaConf.to_container(each, resolve=True)) for each in (compose_config(*options), cfg))

    def changes(override: str) -> bool:
        key = _key(override)
        if key in default_options:
            return override.partition("=")[2] != default_options[key]
        return key not in chosen or chosen[key] != defaults.get(key)

    return [override for override in overrides if changes(override)]


def describe_choices(choices: Iterable[Choice]) -> str:
    """training.momentum=0 by algorithm=scaffold   model=vgg11 by dataset=cifar10"""
    by_chooser: dict[str, dict[str, None]] = {}  # sets in order
    for choice in choices:
        by_chooser.setdefault(choice.chosen_by, {})[f"{choice.setting}={short(choice.value)}"] = None
    return "   ".join(f"{' '.join(chosen)} by {chooser}" for chooser, chosen in by_chooser.items())


def short(value: Any) -> str:
    """A setting's value as on the command line."""
    if isinstance(value, list):
        return f"[{','.join(map(short, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _files(folders: Iterable[Path], group: str, option: str) -> Iterable[Path]:
    candidates = [SWEEPS / f"{option}.yaml"] if group == "sweeps" else [f / group / f"{option}.yaml" for f in folders]
    candidates += [plugin.file.parent / "conf" / group / f"{option}.yaml" for plugin in plugins.active()]
    return [path for path in candidates if path.is_file()][:1]


@cache
def _read(path: Path, group: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the options that a YAML file chooses for other groups, and the settings it makes outside its own group."""
    text = path.read_text(encoding="utf-8")
    is_global = group == "sweeps" or GLOBAL_PACKAGE.search(text)
    if not is_global and "defaults:" not in text:  # nothing for other groups
        return {}, {}
    content: Any = OmegaConf.to_container(OmegaConf.create(text))
    entries = [entry for entry in content.pop("defaults", []) if isinstance(entry, dict)]
    options = {_group(key): option for entry in entries for key, option in entry.items()}
    others = _flat({key: value for key, value in content.items() if key not in (group, "hydra", *GRID_KEYS)})
    return options, others if is_global else {}


def _flat(settings: Any) -> dict[str, Any]:
    return flat(settings, separator=".")


def _group(key: str) -> str:
    """model, of `override /model@_global_.model: vgg11` in a defaults list."""
    return key.removeprefix("override ").strip(" /").partition("@")[0]


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+~").partition("@")[0]
