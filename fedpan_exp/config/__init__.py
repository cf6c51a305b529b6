"""Experiments as typed, checked values, composed by Hydra from conf/."""

from fedpan_exp.config.compose import compose_config, experiment, identify, read, register, registered, settings_of
from fedpan_exp.config.experiment import AUTO, Experiment

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
