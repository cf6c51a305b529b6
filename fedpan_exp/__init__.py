"""Experiments on federated learning with position-aware neurons."""

from fedpan_exp.system import torchvision_guard

__version__ = "0.1.0"

torchvision_guard.install()
