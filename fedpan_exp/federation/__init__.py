"""Rounds of local training and aggregation."""

from fedpan_exp.federation.memories import DiskMemories, Memories
from fedpan_exp.federation.rounds import Round, federate
from fedpan_exp.federation.scene import Scene

__all__ = ["DiskMemories", "Memories", "Round", "Scene", "federate"]
