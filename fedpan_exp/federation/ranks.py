"""Clients over several processes: how many processes there are, how they start and how they end.

Rank 0 is the process the user started. Records, checkpoints, signals and what clients remember are its own; the other
ranks help it train and own nothing, so that they may end at any moment. They are forked from it where the round loop
starts, so that all share the memory the data is in; or torchrun has started them all, on one machine or several.
"""

import gc
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from lightning import Fabric
from lightning.fabric.plugins.environments import LightningEnvironment
from lightning.fabric.strategies import DDPStrategy
from torch import distributed

from fedpan_exp import torchrun
from fedpan_exp.federation.team import Dismissed, Team
from fedpan_exp.system.errors import UserError, require
from fedpan_exp.system.signals import StopRequest

# The group of an earlier run that lies about in a cycle must not be destroyed in a forked process: it would wait there
# for threads that only its maker has.
os.register_at_fork(before=gc.collect, after_in_child=gc.freeze)


def check_ranks(setting: str) -> None:
    is_number = setting.isdecimal() and int(setting) >= 1
    require(setting == "auto" or is_number, "ranks", "auto or a number from 1", setting)


def count_ranks(setting: str, cohort_size: int, device: torch.device) -> int:
    """How many processes train the clients of a round; never more than there are clients invited to it.

    `auto` takes the threads torch would use: a core each, of those this process may use, and fewer where somebody who
    starts several runs side by side has divided them up by OMP_NUM_THREADS.
    """
    if torchrun.is_launched():
        size = torchrun.size()
        require(setting in ("auto", str(size)), "ranks", f"auto or {size}, as torchrun has started", setting)
        require(size <= cohort_size, "torchrun's processes", f"at most {cohort_size}, the clients of a round", size)
        return size
    can_fork = device.type == "cpu" and sys.platform == "linux"
    if setting == "auto":
        return min(torch.get_num_threads(), len(os.sched_getaffinity(0)), cohort_size) if can_fork else 1
    elsewhere = f"auto or 1 here; `torchrun --nproc-per-node={setting} -m fedpan_exp ...` starts processes on {device}"
    require(can_fork or setting == "1", "ranks", elsewhere, setting)
    return min(int(setting), cohort_size)


def share_out(samples: Sequence[int], ranks: int) -> list[list[int]]:
    """Which items each rank takes, such that all have about as many samples: the longest first, to whoever has least
    so far. Each rank keeps the items' order."""
    loads = [0] * ranks
    shares: list[list[int]] = [[] for _ in loads]
    for item in sorted(range(len(samples)), key=lambda item: -samples[item]):
        rank = loads.index(min(loads))
        loads[rank] += samples[item]
        shares[rank].append(item)
    return [sorted(share) for share in shares]


@contextmanager
def assemble(size: int, stop: StopRequest) -> Iterator[Team]:
    """The ranks of a run until it ends. Behind this line each of them does the same, on its share of the work."""
    if torchrun.is_launched():
        machines = torchrun.size() // torchrun.local_size()
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"  # words travel in main memory
        strategy = DDPStrategy(process_group_backend=backend)
        fabric = Fabric(strategy=strategy, devices=torchrun.local_size(), num_nodes=machines)
        fabric.launch()
        yield Team(stop, torchrun.rank(), size, fabric)
    elif size > 1:
        with _fork(size, stop) as team:
            yield team
    else:
        yield Team(stop)


@contextmanager
def _fork(size: int, stop: StopRequest) -> Iterator[Team]:
    leader, threads, rank = os.getpid(), torch.get_num_threads(), 0
    helpers: dict[int, int] = {}
    stop.is_polled = True  # from here on a signal is only noted: raised inside of a fork, its exception would be lost
    torch.set_num_threads(1)  # a core each; and OpenMP's threads do not survive a fork
    with tempfile.TemporaryDirectory(prefix="fedpan_exp-") as folder:
        try:
            for number in range(1, size):
                if process := os.fork():
                    helpers[number] = process
                    continue
                rank, helpers, stop = number, {}, StopRequest()
                for ignored in (signal.SIGINT, signal.SIGTERM):  # sent to all processes, but rank 0 decides
                    signal.signal(ignored, signal.SIG_IGN)
                break
            fabric = _connect(rank, size, Path(folder) / "meeting")
            yield Team(stop, rank, size, fabric, helpers, leader if rank else None)
        except BaseException as error:
            if not rank:
                raise
            if not isinstance(error, Dismissed | UserError):  # rank 0 will say these, but of others see only the end
                traceback.print_exc()
        finally:
            if rank:
                os._exit(0)  # what else is open in this process belongs to rank 0
            for process in helpers.values():
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            if distributed.is_initialized():
                distributed.destroy_process_group()
            torch.set_num_threads(threads)


def _connect(rank: int, size: int, meeting: Path) -> Fabric:
    """They meet at a file: no port to choose, none to be taken."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = f"file://{meeting}"
    distributed.init_process_group("gloo", store, timeout=torchrun.TIMEOUT_S, rank=rank, world_size=size)
    fabric = Fabric(accelerator="cpu", devices=size, strategy="ddp", plugins=[_Forked(rank)])
    with _threads_settled():
        fabric.launch()
    return fabric


@contextmanager
def _threads_settled() -> Iterator[None]:
    """Fabric would choose threads where nobody seems to have, and for processes to come, too."""
    given = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(torch.get_num_threads())
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]
        if given is not None:
            os.environ["OMP_NUM_THREADS"] = given


class _Forked(LightningEnvironment):
    """Tells Fabric that its processes are there already."""

    creates_processes_externally = True

    def __init__(self, rank: int):
        super().__init__()
        self._rank = rank

    def local_rank(self) -> int:
        return self._rank
