"""Processes that torchrun has started, on one machine or several: all of them are one run.

Only rank 0 prints and writes. The others load the same configuration and become workers when the round loop starts.
There may be more processes than GPUs: those of a machine take turns.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.distributed import rendezvous

from fedpan_exp.federation.executors.parallel import ParallelExecutor
from fedpan_exp.federation.executors.process_group import TIMEOUT, ProcessGroup
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


def connect() -> None:
    """Join the group at the start of the program, so that workers notice when rank 0 ends, for whatever reason."""
    if (gpu := local_gpu()) is not None:
        torch.cuda.set_device(gpu)
    torch.distributed.init_process_group(backend(_each_rank_has_own_gpu()), timeout=TIMEOUT)


def _each_rank_has_own_gpu() -> bool:
    """Whether it is so on all machines: every rank says it in torchrun's store, and waits for the others."""
    store, *_ = next(iter(rendezvous("env://")))
    has_own = int(os.environ["LOCAL_WORLD_SIZE"]) <= torch.cuda.device_count()
    store.set(f"own_gpu/{rank()}", str(has_own))
    return all(store.get(f"own_gpu/{other}") == b"True" for other in range(size()))


def backend(each_has_own_gpu: bool) -> str:
    """How ranks communicate: NCCL does not let two of them share a GPU, gloo does.

    Vectors in main memory, such as the clients' states, are sent by gloo in any case.
    """
    return "cpu:gloo,cuda:nccl" if each_has_own_gpu else "gloo"


class TorchrunExecutor(ParallelExecutor):
    @contextmanager
    def launch(self) -> Iterator[ProcessGroup]:
        yield ProcessGroup(rank(), size(), self.stop)
