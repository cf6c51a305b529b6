"""Processes that torchrun has started, on one machine or several: all of them are one run.

Only rank 0 prints and writes. The others load the same configuration and become workers when the round loop starts.
There may be more processes than GPUs: those of a machine take turns.
"""

import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import NoReturn

import torch
from torch.distributed import PrefixStore, Store, rendezvous

from fedpan_exp.algorithms import ServerState
from fedpan_exp.federation.executors.heartbeats import StoreHeartbeats
from fedpan_exp.federation.executors.parallel import Command, ParallelExecutor, R
from fedpan_exp.federation.executors.process_group import (
    REPORT_S,
    ProcessGroup,
    RankZeroEnded,
    RankZeroSilent,
    WorkerExit,
)
from fedpan_exp.training import gpu_of, processes_that_fit


def command(processes: int) -> list[str]:
    """What starts several processes on this machine; a module and its arguments follow."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]


def is_launched() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def rank() -> int:
    return int(os.environ["RANK"]) if is_launched() else 0


def size() -> int:
    return int(os.environ["WORLD_SIZE"]) if is_launched() else 1


def local_gpu() -> int | None:
    """The GPU that this process uses. None where torchrun has not started it, or without GPUs."""
    return gpu_of(int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()) if is_launched() else None


def advice(device: torch.device, clients: int) -> str | None:
    """What to start instead of one process on a GPU, by the memory that it has needed so far. None: nothing.

    A process cannot be forked once it uses CUDA, so a run cannot take further processes by itself.
    """
    if is_launched() or device.type != "cuda":
        return None
    free_bytes, _ = torch.cuda.mem_get_info(device)
    per_gpu = processes_that_fit(torch.cuda.max_memory_reserved(device), free_bytes, clients, os.cpu_count() or 1)
    processes = min(clients, per_gpu * torch.cuda.device_count())
    if processes == 1:
        return None
    start = f"torchrun --standalone --nproc-per-node={processes} -m fedpan_exp ..."
    return f"{processes} processes would fit into the GPU's memory; to resume this run with them: {start}"


@cache
def store() -> Store:
    """torchrun's key-value store, with keys of this start only: after a restart it still has those from before."""
    shared, *_ = next(iter(rendezvous("env://")))
    return PrefixStore(f"start{os.environ['TORCHELASTIC_RESTART_COUNT']}", shared)


@cache
def heartbeats() -> StoreHeartbeats:
    """Those of this process; they begin with the first call."""
    return StoreHeartbeats(rank(), size(), store())


def join() -> None:
    """Give signs of life from the start of the program, so that workers notice if rank 0 ends before it trains."""
    if (gpu := local_gpu()) is not None:
        torch.cuda.set_device(gpu)
    has_own_gpu = int(os.environ["LOCAL_WORLD_SIZE"]) <= torch.cuda.device_count()
    store().set(f"own_gpu/{rank()}", str(has_own_gpu))
    heartbeats()


@contextmanager
def rank_zero_reports() -> Iterator[None]:
    """Let a worker that fails wait until rank 0 has reported it: torchrun ends all processes after the first."""
    try:
        yield
    except WorkerExit:
        raise
    except (SystemExit, Exception):
        until = time.monotonic() + REPORT_S
        while rank() and time.monotonic() < until and heartbeats().silent_s()[0] < math.inf:
            time.sleep(0.1)
        raise


def _each_rank_has_own_gpu() -> bool:
    """Whether it is so on all machines; to be called when all ranks have joined."""
    return all(value == b"True" for value in store().multi_get([f"own_gpu/{other}" for other in range(size())]))


def backend(each_has_own_gpu: bool) -> str:
    """How ranks communicate: NCCL does not let two of them share a GPU, gloo does.

    Vectors in main memory, such as the clients' states, are sent by gloo in any case.
    """
    return "cpu:gloo,cuda:nccl" if each_has_own_gpu else "gloo"


class TorchrunExecutor(ParallelExecutor):
    @contextmanager
    def start(self, server: ServerState) -> Iterator[None]:
        self.group = ProcessGroup(heartbeats(), self.stop, self.timeout)
        if not self.group.is_rank_zero:
            self._work(server)
        self._connect(server)
        yield
        self._command(Command.EXIT)

    def _work(self, server: ServerState) -> NoReturn:
        """What a worker does from now on, until its process ends."""
        self._on_clients_done = lambda clients: None  # rank 0 reports progress
        try:
            try:
                self._connect(server)
            except RankZeroEnded:
                raise WorkerExit(0) from None  # it has nothing to train: the run is finished, or it reports an error
            self._serve(server)
        except RankZeroSilent as silent:
            if store().add("reports", 1) == 1:  # the first worker that notices
                print(f"fedpan_exp: {silent.reason}; run the same command to resume", file=sys.stderr, flush=True)
            raise

    def _connect(self, server: ServerState) -> None:
        self.group.barrier()  # may take as long as the slowest process loads its data; exchanges have a timeout
        # Without this an exchange by NCCL would return at once, and at the timeout the process would be aborted.
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
        self.group.connect(backend(_each_rank_has_own_gpu()), self.timeout, store=store())
        self.group.broadcast_server(server)
        self.states.folder = self.group.broadcast_object(self.states.folder.resolve())

    def _with_workers(self, server: ServerState, exchange: Callable[[], R]) -> R:
        return exchange()  # if a worker dies, the run ends, and torchrun starts it again: --max-restarts
