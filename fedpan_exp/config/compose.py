"""From Hydra's config to an Experiment: register the schemas, compose, convert, check."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from fedpan_exp import plugins
from fedpan_exp.algorithms import ALGORITHMS
from fedpan_exp.config.hydra_config import compose_config, own_config_store
from fedpan_exp.config.hydra_errors import as_user_errors
from fedpan_exp.config.schema import AUTO, Experiment
from fedpan_exp.config.sweep_file import as_config
from fedpan_exp.config.yaml_names import GLOBAL_PACKAGE
from fedpan_exp.data import OWN_DATA, OwnData
from fedpan_exp.models import MODELS
from fedpan_exp.system.errors import ConfigError, first_line, hint
from fedpan_exp.system.paths import SWEEPS
from fedpan_exp.tracking.identity import RunIdentity, whole
from fedpan_exp.training import visible_gpus

VARIANTS = {"paper": "canonical", "authors": "authors"}

__all__ = [
    "AUTO",
    "Experiment",
    "compose_config",
    "experiment",
    "identify",
    "read",
    "register",
    "registered",
    "settings_of",
]


def register(studies: Mapping[str, type], overrides: Sequence[str] = ()) -> None:
    """Register the schemas of all groups and the sweeps with Hydra, in addition to the YAML files in conf/.

    Studies are passed in: they are built on top of this package. `overrides` name the plugins.
    """
    # fidelity=authors selects the released code's variant of an algorithm where it differs from the canonical one.
    OmegaConf.register_new_resolver("variant", VARIANTS.__getitem__, replace=True)
    OmegaConf.register_new_resolver("at_smoke", _at_smoke, replace=True)
    OmegaConf.register_new_resolver("product", operator.mul, replace=True)
    OmegaConf.register_new_resolver("divisible", _divisible, replace=True)
    OmegaConf.register_new_resolver("gpus", lambda: max(1, len(visible_gpus())), replace=True)
    plugins.activate(plugins.in_overrides(overrides))
    store = ConfigStore.instance().store
    store(name="schema", node=Experiment)
    groups: dict[str, Mapping[str, type]] = {
        "algorithm": ALGORITHMS,
        "model": MODELS,
        "study": {**studies, **plugins.STUDIES},
        "dataset": OWN_DATA,
    }
    for group, schemas in groups.items():
        for name, schema in schemas.items():
            store(group=f"{group}/schema", name=name, node=schema, package=group)
    for group, name, _, plugin in plugins.options():
        node, package = _plugin_option(group, name, plugin)
        store(group=group, name=name, node=node, package=package, provider=plugin.name)
    for name, sweep in _sweeps(SWEEPS).items():
        store(group="sweeps", name=name, node=sweep, package="_global_")


@contextmanager
def registered(studies: Mapping[str, type], overrides: Sequence[str]) -> Iterator[None]:
    """Register in this context only: a program around us may store configs of its own under the same names."""
    with own_config_store():
        register(studies, overrides)
        yield


@cache
def _sweeps(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: as_config(path) for path in sorted(folder.glob("*.yaml"))}


def _plugin_option(group: str, name: str, plugin: plugins.Plugin) -> tuple[Any, str]:
    """The option of a plugin as Hydra composes it, and its package: its YAML file, or the defaults of its settings."""
    path = plugin.option_file(group, name)
    if not path:
        schema = "plugin" if group == "dataset" else name
        return {"defaults": [f"schema/{schema}"], "name": name}, group
    try:
        content = OmegaConf.create(path.read_text(encoding="utf-8"))
    except (OSError, YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{path} must be a YAML file, got an error: {first_line(error)}") from None
    return content, "_global_" if GLOBAL_PACKAGE.search(path.read_text(encoding="utf-8")) else group


def read(cfg: DictConfig) -> Experiment:
    """Convert a composed config and check it; an invalid setting raises ConfigError."""
    plugins.activate(cfg.plugins)  # also in processes of a launcher, which have composed nothing
    with as_user_errors(()):
        experiment = OmegaConf.to_object(cfg)
    assert isinstance(experiment, Experiment)
    _reject_unknown(cfg, experiment)
    experiment.study.check(experiment)
    if "algorithm" not in experiment.study.irrelevant:
        experiment.algorithm.check(experiment)
    return experiment


def identify(experiment: Experiment, settings: Mapping[str, Any]) -> RunIdentity:
    """Return the identity of an experiment's run; `settings` are the same experiment as nested dicts."""
    study = experiment.study
    return RunIdentity.of(settings, study.irrelevant, experiment.pans_off, study.total_rounds(experiment))


def settings_of(cfg: DictConfig, experiment: Experiment) -> dict[str, Any]:
    """The settings as nested dicts, for the run folder; with what follows from the plugins and from own data."""
    settings: Any = OmegaConf.to_container(cfg, resolve=True)
    settings["plugins"] = experiment.used_plugins()
    settings["fl_scene"]["file"] = experiment.fl_scene.file
    settings["fl_scene"]["E"] = whole(settings["fl_scene"]["E"])
    if isinstance(experiment.dataset, OwnData):
        settings["dataset"] |= asdict(experiment.dataset)
    return settings


def experiment(*overrides: str) -> Experiment:
    return read(compose_config(*overrides))


def _at_smoke(small: Any, usual: Any, *, _root_: DictConfig) -> Any:
    """${at_smoke:100,500} in a YAML file: 100 at scale=smoke, else 500. For settings that not every study has."""
    return small if _root_.scale == "smoke" else usual


def _divisible(widths: Any, groups: int, first: int = 1) -> Any:
    """${divisible:64 M 128,10,2} in a YAML file: 64 M 130, default widths rounded up for groups from layer 2 on."""
    if isinstance(widths, int):
        return widths + -widths % max(groups, 1)
    tokens, layer = str(widths).split(), 0
    for i, token in enumerate(tokens):
        layer += token != "M"
        if token != "M" and layer >= first:
            tokens[i] = str(_divisible(int(token), groups))
    return " ".join(tokens)


def _reject_unknown(cfg: DictConfig, settings: Any, section: str = "") -> None:
    """Reject settings added with `+name=value`, which nothing would read."""
    names = [field.name for field in fields(settings)]
    for key in map(str, cfg):
        if key not in names:
            raise ConfigError(f"{section}{key} is not a setting{hint(key, names)}")
        if isinstance(cfg[key], DictConfig):
            _reject_unknown(cfg[key], getattr(settings, key), f"{section}{key}.")
