"""Rounds of local training and aggregation."""

from fedpan_exp.federation.rounds import Round, federate
from fedpan_exp.federation.scene import Scene

__all__ = ["Round", "Scene", "federate"]
