"""Rounds of local training and aggregation."""

from fedpan_exp.federation.checkpoint import Checkpoints, CheckpointSettings
from fedpan_exp.federation.client_states import ClientStates
from fedpan_exp.federation.loop import federate
from fedpan_exp.federation.ranks import check_ranks, count_ranks
from fedpan_exp.federation.round import Round
from fedpan_exp.federation.scene import Scene
from fedpan_exp.federation.snapshot import Snapshot

__all__ = [
    "CheckpointSettings",
    "Checkpoints",
    "ClientStates",
    "Round",
    "Scene",
    "Snapshot",
    "check_ranks",
    "count_ranks",
    "federate",
]
