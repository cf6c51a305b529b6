"""Rounds of local training and aggregation."""

from fedpan_exp.federation.checkpoint import Checkpoints, CheckpointSettings
from fedpan_exp.federation.memories import Memories
from fedpan_exp.federation.rounds import Kept, Round, federate
from fedpan_exp.federation.scene import Scene

__all__ = ["CheckpointSettings", "Checkpoints", "Kept", "Memories", "Round", "Scene", "federate"]
