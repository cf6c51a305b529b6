"""Workers forked from the user's process, one per core: they share the dataset's memory."""

import gc
import os
import signal
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from fedpan_exp.federation.executors.parallel import ParallelExecutor
from fedpan_exp.federation.executors.process_group import TIMEOUT, ProcessGroup, WorkerDied, WorkerExit
from fedpan_exp.system.errors import UserError
from fedpan_exp.system.signals import StopRequest

# The process group of an earlier run may still be in a reference cycle. It must not be destroyed in a forked process,
# where it would wait for threads that do not exist there.
os.register_at_fork(before=gc.collect, after_in_child=gc.freeze)


class ForkedExecutor(ParallelExecutor):
    """`ranks` processes with one thread each."""

    def __init__(self, ranks: int, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.ranks = ranks

    @contextmanager
    def launch(self) -> Iterator[ProcessGroup]:
        parent, threads, rank = os.getpid(), torch.get_num_threads(), 0
        workers: dict[int, int] = {}  # rank -> process id
        self.stop.is_polled = True  # defers signals: an exception from a handler during fork() would be lost
        torch.set_num_threads(1)  # one core each; and OpenMP's threads do not survive a fork
        with tempfile.TemporaryDirectory(prefix="fedpan_exp-") as folder:
            try:
                for number in range(1, self.ranks):
                    if process := os.fork():
                        workers[number] = process
                        continue
                    rank, self.stop = number, StopRequest()
                    for ignored in (signal.SIGINT, signal.SIGTERM):  # sent to all processes, but rank 0 decides
                        signal.signal(ignored, signal.SIG_IGN)
                    break
                _connect(rank, self.ranks, Path(folder) / "rendezvous")
                group = ProcessGroup(rank, self.ranks, self.stop)
                group.check_alive = (
                    (lambda: _check_parent(parent)) if rank else (lambda: _check_workers(workers, group))
                )
                yield group
            except BaseException as error:
                if not rank:
                    raise
                if not isinstance(error, WorkerExit | UserError):  # rank 0 reports those itself
                    traceback.print_exc()
            finally:
                if rank:
                    os._exit(0)  # whatever else is open in this process belongs to rank 0
                for process in workers.values():
                    os.kill(process, signal.SIGKILL)
                    os.waitpid(process, 0)
                if distributed.is_initialized():
                    distributed.destroy_process_group()
                torch.set_num_threads(threads)


def _connect(rank: int, size: int, rendezvous: Path) -> None:
    """Connect through a file: no port to choose, none to be taken by others."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", f"file://{rendezvous}", timeout=TIMEOUT, rank=rank, world_size=size)


def _check_workers(workers: dict[int, int], group: ProcessGroup) -> None:
    for rank, process in workers.items():
        if end := os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            killed = end.si_code != os.CLD_EXITED
            how = f"was killed by {signal.Signals(end.si_status).name}" if killed else "ended by itself"
            group.died = WorkerDied(f"rank {rank} {how}")
            raise group.died


def _check_parent(parent: int) -> None:
    if os.getppid() != parent:
        raise WorkerExit(0)
