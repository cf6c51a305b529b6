"""From Hydra's config to an Experiment: register the schemas, compose, convert, check."""

import operator
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from fedpan_exp.algorithms import ALGORITHMS
from fedpan_exp.config.experiment import Experiment
from fedpan_exp.config.sweep_file import as_config
from fedpan_exp.models import MODELS
from fedpan_exp.system.errors import ConfigError, hint
from fedpan_exp.system.paths import CONF, SWEEPS
from fedpan_exp.tracking.identity import RunIdentity

VARIANTS = {"paper": "canonical", "authors": "authors"}


def register(studies: Mapping[str, type]) -> None:
    """Register the schemas of all groups and the sweeps with Hydra, in addition to the YAML files in conf/.

    Studies are passed in: they are built on top of this package.
    """
    # fidelity=authors selects the released code's variant of an algorithm where it differs from the canonical one.
    OmegaConf.register_new_resolver("variant", VARIANTS.__getitem__, replace=True)
    OmegaConf.register_new_resolver("at_smoke", _at_smoke, replace=True)
    OmegaConf.register_new_resolver("product", operator.mul, replace=True)
    OmegaConf.register_new_resolver("divisible", _divisible, replace=True)
    store = ConfigStore.instance().store
    store(name="schema", node=Experiment)
    for group, schemas in (("algorithm", ALGORITHMS), ("model", MODELS), ("study", studies)):
        for name, schema in schemas.items():
            store(group=f"{group}/schema", name=name, node=schema, package=group)
    for sweep in sorted(SWEEPS.glob("*.yaml")):
        store(group="sweeps", name=sweep.stem, node=as_config(sweep), package="_global_")


def read(cfg: DictConfig) -> Experiment:
    """Convert a composed config and check it; an invalid setting raises ConfigError."""
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


def compose_config(*overrides: str) -> DictConfig:
    """Compose a config from overrides, as the command line does; also inside a program with a Hydra of its own."""
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return compose("config", list(overrides))
    finally:
        GlobalHydra.instance().hydra = outer


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
