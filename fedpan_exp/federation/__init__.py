"""Rounds of local training and aggregation."""

from fedpan_exp.federation.checkpoint import KEPT, Checkpoint, Checkpoints, CheckpointSettings
from fedpan_exp.federation.client_states import ClientStates
from fedpan_exp.federation.executors import (
    SerialExecutor,
    WorkerDied,
    check_ranks,
    count_ranks,
    make_executor,
    torchrun,
)
from fedpan_exp.federation.fork import Fork
from fedpan_exp.federation.loop import federate
from fedpan_exp.federation.round import Round
from fedpan_exp.federation.scene import Scene
from fedpan_exp.federation.snapshot import Snapshot
from fedpan_exp.federation.task import FederatedTask

__all__ = [
    "KEPT",
    "Checkpoint",
    "CheckpointSettings",
    "Checkpoints",
    "ClientStates",
    "FederatedTask",
    "Fork",
    "Round",
    "Scene",
    "SerialExecutor",
    "Snapshot",
    "WorkerDied",
    "check_ranks",
    "count_ranks",
    "federate",
    "make_executor",
    "torchrun",
]
