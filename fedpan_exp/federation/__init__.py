"""Rounds of local training and aggregation."""

from fedpan_exp.federation.checkpoint import Checkpoints, CheckpointSettings
from fedpan_exp.federation.client_states import Memories
from fedpan_exp.federation.loop import federate
from fedpan_exp.federation.ranks import check_ranks, count_ranks
from fedpan_exp.federation.round import Round
from fedpan_exp.federation.scene import Scene
from fedpan_exp.federation.snapshot import Kept

__all__ = [
    "CheckpointSettings",
    "Checkpoints",
    "Kept",
    "Memories",
    "Round",
    "Scene",
    "check_ranks",
    "count_ranks",
    "federate",
]
