"""Experiments as typed, checked values, composed by Hydra from conf/."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedpan_exp.config.compose import experiment, identify, read, register, registered, settings_of
    from fedpan_exp.config.hydra_config import compose_config
    from fedpan_exp.config.schema import AUTO, Experiment

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


def __getattr__(name: str) -> Any:
    """Import the schemas when they are first used: they need torch, which takes seconds; a misspelt name does not."""
    if name in __all__:
        from fedpan_exp.config import compose

        return getattr(compose, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
