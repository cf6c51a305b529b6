"""Compose a config with Hydra, from what is registered in its ConfigStore and from conf/."""

from collections.abc import Iterator
from contextlib import contextmanager

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from fedpan_exp.system.paths import CONF


def compose_config(*overrides: str) -> DictConfig:
    """Compose a config from overrides, as the command line does; also inside a program with a Hydra of its own."""
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return compose("config", list(overrides))
    finally:
        GlobalHydra.instance().hydra = outer


@contextmanager
def own_config_store() -> Iterator[None]:
    """Begin with Hydra's own configs, and drop what is stored in this context: a program around us may have others."""
    store = ConfigStore.instance()
    outer = store.repo
    store.repo = {
        name: entry for name, entry in outer.items() if name == "hydra" or getattr(entry, "provider", None) == "hydra"
    }
    try:
        yield
    finally:
        store.repo = outer
