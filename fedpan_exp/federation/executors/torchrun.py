"""Processes that torchrun has started, on one machine or several: all of them are one run.

Only rank 0 prints and writes. The others load the same configuration and become workers when the round loop starts.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache

import torch
from torch.distributed import PrefixStore, Store, rendezvous

from fedpan_exp.algorithms import ServerState
from fedpan_exp.federation.executors.heartbeats import StoreHeartbeats
from fedpan_exp.federation.executors.parallel import Command, ParallelExecutor, R
from fedpan_exp.federation.executors.process_group import ProcessGroup, WorkerExit

# For one exchange, and until the slowest process has loaded its data. Later processes meet before they exchange.
EXCHANGE_TIMEOUT = timedelta(minutes=10)


def is_launched() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def rank() -> int:
    return int(os.environ["RANK"]) if is_launched() else 0


def size() -> int:
    return int(os.environ["WORLD_SIZE"]) if is_launched() else 1


def local_gpu() -> int | None:
    """The GPU that this process uses: one per process of a machine. None where torchrun has not started it."""
    return int(os.environ["LOCAL_RANK"]) if is_launched() else None


@cache
def store() -> Store:
    """torchrun's key-value store, with keys of this start only: after a restart it still has those from before."""
    shared, *_ = next(iter(rendezvous("env://")))
    return PrefixStore(f"start{os.environ['TORCHELASTIC_RESTART_COUNT']}", shared)


@cache
def heartbeats() -> StoreHeartbeats:
    """Those of this process; they begin with the first call."""
    return StoreHeartbeats(rank(), size(), store())


def connect() -> None:
    """Join the group at the start of the program, so that workers notice when rank 0 ends, for whatever reason."""
    if torch.cuda.is_available():
        torch.cuda.set_device(local_gpu())
    heartbeats()
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"  # states are sent from main memory
    torch.distributed.init_process_group(
        backend, store=store(), rank=rank(), world_size=size(), timeout=EXCHANGE_TIMEOUT
    )


class TorchrunExecutor(ParallelExecutor):
    @contextmanager
    def start(self, server: ServerState) -> Iterator[None]:
        self.group = ProcessGroup(heartbeats(), self.stop, self.timeout)
        try:
            self.group.broadcast_server(server)
            self.states.folder = self.group.broadcast_object(self.states.folder.resolve())
        except WorkerExit:
            raise WorkerExit(0) from None  # rank 0 has nothing to train: the run is finished, or it reports an error
        if not self.group.is_rank_zero:
            self._on_clients_done = lambda clients: None  # rank 0 reports progress
            self._serve(server)
        yield
        self._command(Command.EXIT)

    def _with_workers(self, server: ServerState, exchange: Callable[[], R]) -> R:
        return exchange()  # if a worker dies, the run ends, and torchrun starts it again: --max-restarts
