"""Experiments as typed, checked values, composed by Hydra from conf/."""

from fedpan_exp.config.compose import experiment, identify, read, register
from fedpan_exp.config.experiment import Experiment

__all__ = ["Experiment", "experiment", "identify", "read", "register"]
