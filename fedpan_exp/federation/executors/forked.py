"""Workers forked from the user's process, one per core: they share the dataset's memory.

Workers own nothing. If one dies, all of them are ended and forked anew, and the exchange that it broke is repeated.
"""

import ctypes
import gc
import math
import os
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import torch
from torch import distributed

from fedpan_exp.algorithms import ServerState
from fedpan_exp.federation.executors.heartbeats import SharedHeartbeats
from fedpan_exp.federation.executors.parallel import ParallelExecutor, R
from fedpan_exp.federation.executors.process_group import ProcessGroup, WorkerDied, WorkerExit
from fedpan_exp.system.console import print_status
from fedpan_exp.system.errors import UserError
from fedpan_exp.system.signals import StopRequest

MOST_DEATHS = 3  # in one round: by then they have a lasting cause, such as too little memory
EXCHANGE_S = 60.0  # for one exchange between processes that have met: it takes milliseconds
IN_MEMORY = Path("/dev/shm")  # for small files, also if the disk is full
PR_SET_PDEATHSIG = 1  # Linux's prctl: the signal that a process gets when its parent ends

# The process group of an earlier run may still be in a reference cycle. It must not be destroyed in a forked process,
# where it would wait for threads that do not exist there.
os.register_at_fork(before=gc.collect, after_in_child=gc.freeze)


class ForkedExecutor(ParallelExecutor):
    """`ranks` processes with one thread each."""

    def __init__(self, ranks: int, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.ranks = ranks
        self._workers: dict[int, int] = {}  # rank -> process id
        self._folder = Path()  # for the files through which processes find each other

    @contextmanager
    def start(self, server: ServerState) -> Iterator[None]:
        """The workers are forked when they are first needed."""
        threads = torch.get_num_threads()
        self.stop.is_polled = True  # defers signals: an exception from a handler during fork() would be lost
        torch.set_num_threads(1)  # one core each; and OpenMP's threads do not survive a fork
        with tempfile.TemporaryDirectory(prefix="fedpan_exp-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
            self._folder = Path(folder)
            try:
                yield
            finally:
                self._end_workers()
                torch.set_num_threads(threads)

    def _with_workers(self, server: ServerState, exchange: Callable[[], R]) -> R:
        for deaths in range(1, MOST_DEATHS + 1):
            try:
                if not self._workers:
                    self._start_workers(server)
                return exchange()
            except WorkerDied as died:
                reason = died.reason
            self._end_workers()
            if deaths < MOST_DEATHS:
                print_status("ranks", f"{reason}; it is replaced, and what was under way starts again")
        raise WorkerDied(f"{reason} (the third worker in a row)")

    def _start_workers(self, server: ServerState) -> None:
        heartbeats, rendezvous, parent = SharedHeartbeats(self.ranks), self._folder / uuid4().hex, os.getpid()
        for rank in range(1, self.ranks):
            process = os.fork()
            if not process:
                self._work(rank, parent, heartbeats, rendezvous, server)
            self._workers[rank] = process
        self.group = ProcessGroup(heartbeats, self.stop, self.timeout, self._find_dead)
        self._connect(rendezvous)

    def _work(
        self, rank: int, parent: int, heartbeats: SharedHeartbeats, rendezvous: Path, server: ServerState
    ) -> NoReturn:
        """The whole life of a worker."""
        try:
            _end_with(parent)
            for ignored in (signal.SIGINT, signal.SIGTERM):  # sent to all processes, but rank 0 decides
                signal.signal(ignored, signal.SIG_IGN)
            heartbeats.rank = rank
            self.stop, self._on_clients_done = StopRequest(), lambda clients: None  # rank 0's
            self.group = ProcessGroup(heartbeats, self.stop, timeout=math.inf)
            self._connect(rendezvous)
            self._serve(server)
        except (WorkerExit, UserError):
            pass  # rank 0 reports those itself
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)  # whatever else is open in this process belongs to rank 0

    def _connect(self, rendezvous: Path) -> None:
        """Connect through a file: no port to choose, none to be taken by others."""
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        self.group.barrier()
        self.group.connect("gloo", min(self.timeout, EXCHANGE_S), init_method=f"file://{rendezvous}")

    def _end_workers(self) -> None:
        for process in self._workers.values():
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        self._workers = {}
        if distributed.is_initialized():
            distributed.destroy_process_group()

    def _find_dead(self) -> str | None:
        for rank, process in self._workers.items():
            if end := os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                killed = end.si_code != os.CLD_EXITED
                how = f"was killed by {signal.Signals(end.si_status).name}" if killed else "ended by itself"
                return f"rank {rank} {how}"
        return None


def _end_with(parent: int) -> None:
    """Let the system kill this process when its parent ends, also if it is stopped: it would keep the run locked."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # too late
        os._exit(1)
