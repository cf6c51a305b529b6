"""Processes that torchrun has started, on one machine or several: all of them are one run.

Only rank 0 prints and writes. The others load the same configuration and become workers when the round loop starts.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fedpan_exp.federation.executors.parallel import ParallelExecutor
from fedpan_exp.federation.executors.process_group import TIMEOUT, ProcessGroup


def is_launched() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def rank() -> int:
    return int(os.environ["RANK"]) if is_launched() else 0


def size() -> int:
    return int(os.environ["WORLD_SIZE"]) if is_launched() else 1


def local_gpu() -> int | None:
    """The GPU that this process uses: one per process of a machine. None where torchrun has not started it."""
    return int(os.environ["LOCAL_RANK"]) if is_launched() else None


def connect() -> None:
    """Join the group at the start of the program, so that workers notice when rank 0 ends, for whatever reason."""
    if torch.cuda.is_available():
        torch.cuda.set_device(local_gpu())
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"  # states are sent from main memory
    torch.distributed.init_process_group(backend, timeout=TIMEOUT)


class TorchrunExecutor(ParallelExecutor):
    @contextmanager
    def launch(self) -> Iterator[ProcessGroup]:
        yield ProcessGroup(rank(), size(), self.stop)
