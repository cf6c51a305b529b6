"""What the processes of a run send each other, on torch.distributed; notices a process that died or hangs.

Rank 0 watches the workers, and each worker watches rank 0: while they wait for each other and between two batches, by
their heartbeats; in an exchange, which blocks them, by its timeout.
"""

import math
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from fedpan_exp.algorithms import ServerState
from fedpan_exp.federation.client_states import ClientState
from fedpan_exp.federation.executors.heartbeats import Heartbeats
from fedpan_exp.system.errors import first_line
from fedpan_exp.system.signals import Interrupted, StopRequest

T = TypeVar("T")
States = Mapping[int, ClientState | str]  # by client: its vectors, or the name of the file that holds them
Shapes = Mapping[int, Any]  # what is needed to receive states: shapes and dtypes, or file names
# Between two checks whether the other processes have arrived: a fraction of the time waited so far, within bounds.
POLL_FRACTION, SHORTEST_POLL_S, LONGEST_POLL_S = 0.05, 0.0002, 0.002
EXIT_GRACE_S = 10.0  # at most, after an exchange failed, until system or heartbeats tell which process has died
REPORT_S = 30.0  # after an exchange failed, until rank 0 has reported it and ends


class WorkerDied(Interrupted):
    """A worker process died. Nothing is lost: the run can resume after its last whole round."""

    ends_sweep = False

    def __init__(self, reason: str):
        KeyboardInterrupt.__init__(self, reason)  # Interrupted's own takes a signal
        self.exit_code, self.cleanly, self.reason = 1, True, reason


class WorkerExit(SystemExit):
    """Ends a worker process; rank 0 reports why."""


class RankZeroEnded(WorkerExit):
    """Ends a worker process, because rank 0 has ended without a command."""


class RankZeroSilent(WorkerExit):
    """Ends a worker process, because rank 0 gives no sign of life and cannot report it."""

    def __init__(self, reason: str):
        super().__init__(1)
        self.reason = reason


class ProcessGroup:
    """The processes of a run, as one of them sees them. Rank 0 is the process that the user started."""

    def __init__(
        self,
        heartbeats: Heartbeats,
        stop: StopRequest,
        timeout: float,  # seconds without a sign of life after which a process counts as dead
        find_dead: Callable[[], str | None] = lambda: None,  # says which process the system knows to be dead, and how
    ):
        self.heartbeats, self.rank, self.size = heartbeats, heartbeats.rank, heartbeats.size
        self._stop, self._timeout, self._find_dead = stop, timeout, find_dead
        self._watched = range(1, self.size) if self.is_rank_zero else range(1)
        self.died: WorkerDied | None = None

    @property
    def is_rank_zero(self) -> bool:
        return self.rank == 0

    def barrier(self) -> None:
        """Wait until all ranks have come."""
        with self.detecting_deaths():
            self.meet(range(self.size))

    def connect(self, backend: str, exchange_timeout: float, **rendezvous: Any) -> None:
        """Open the connections for exchanges; `rendezvous` says where the ranks find each other."""
        timeout, excepthook = timedelta(seconds=exchange_timeout), sys.excepthook
        with self.detecting_deaths():
            distributed.init_process_group(backend, timeout=timeout, rank=self.rank, world_size=self.size, **rendezvous)
        sys.excepthook = excepthook  # torch's would mark every later traceback of the user's script with the rank

    def broadcast_ints(self, values: Sequence[int]) -> list[int]:
        """Send rank 0's values to all; the other ranks pass as many placeholders."""
        if self.died:
            raise self.died
        message = torch.tensor(values)
        with self.detecting_deaths():
            self.meet([] if self.is_rank_zero else [0])
            distributed.broadcast(message, src=0)
        return message.tolist()

    def broadcast_vectors(self, vectors: Sequence[Tensor]) -> None:
        """Overwrite the other ranks' vectors with those of rank 0."""
        with self.detecting_deaths():
            for vector in vectors:
                distributed.broadcast(vector, src=0)

    def broadcast_object(self, value: T) -> T:
        values: list[Any] = [value]
        with self.detecting_deaths():
            distributed.broadcast_object_list(values, src=0)
        return values[0]

    def broadcast_server(self, server: ServerState) -> None:
        """Make every rank's server equal to rank 0's, including the entries of its state."""
        layouts = self.broadcast_object(
            {name: (v.shape, v.dtype, v.device.type) for name, v in _vectors(server).items()}
        )
        for name, (shape, dtype, device) in layouts.items():
            if name not in _vectors(server):
                target = server.weights.device if device != "cpu" else "cpu"
                server.state[name] = torch.empty(shape, dtype=dtype, device=target)
        self.broadcast_vectors([_vectors(server)[name] for name in layouts])

    def all_gather(self, value: T) -> list[T]:
        """Send what each rank has to all ranks."""
        values: list[Any] = [None] * self.size
        with self.detecting_deaths():
            self.meet(range(self.size), can_stop=True)
            distributed.all_gather_object(values, value)
        return values

    def all_reduce(self, vectors: Sequence[Tensor]) -> None:
        """Replace each vector by its sum over the ranks, in one exchange."""
        joined = torch.cat(list(vectors))  # in the widest precision among them
        with self.detecting_deaths():
            self.meet(range(self.size))
            distributed.all_reduce(joined)
        for vector, total in zip(vectors, joined.split([len(vector) for vector in vectors]), strict=True):
            vector.copy_(total)

    def scatter_states(self, per_rank: Sequence[States]) -> States:
        """Send each rank its clients' states from rank 0; returns this rank's."""
        shapes = [shapes_of(states) for states in per_rank] if self.is_rank_zero else [{}] * self.size
        mine: list[Any] = [None]
        with self.detecting_deaths():
            distributed.scatter_object_list(mine, shapes, src=0)
            if not self.is_rank_zero:
                return _receive(mine[0], source=0)
            for rank in range(1, self.size):
                _send(per_rank[rank], rank)
        return per_rank[0]

    def gather_states(self, states: States, shapes: Sequence[Shapes]) -> list[States]:
        """Send each rank's states to rank 0, which knows their shapes; returns those of the other ranks."""
        with self.detecting_deaths():
            if self.is_rank_zero:
                return [_receive(shapes[rank], rank) for rank in range(1, self.size)]
            _send(states, 0)
        return []

    def meet(self, ranks: Sequence[int], can_stop: bool = False) -> None:
        """Wait until these ranks come to the same meeting.

        Unlike torch's exchanges this notices processes that have ended or hang and, if the run `can_stop`, signals.
        """
        meeting, started = self.heartbeats.arrive(), time.monotonic()
        while True:
            self.heartbeats.beat()  # who comes or waits is not dead
            arrivals = self.heartbeats.arrivals()
            if all(arrivals[rank] >= meeting for rank in ranks):
                self.heartbeats.met(ranks)
                return
            if can_stop:
                self._stop.raise_if_requested()
            self.check_alive()
            waited = time.monotonic() - started
            time.sleep(min(max(POLL_FRACTION * waited, SHORTEST_POLL_S), LONGEST_POLL_S))

    def check_alive(self) -> None:
        """Give up if a watched process has ended, or has been silent for the timeout."""
        if dead := self._find_dead():
            raise self._died(dead)
        silent_s = self.heartbeats.silent_s()
        for rank in self._watched:
            if silent_s[rank] == math.inf:
                raise RankZeroEnded(1) if rank == 0 else self._died(f"rank {rank} has ended")
            if silent_s[rank] >= self._timeout:
                reason = f"rank {rank} made no progress for {self._timeout:g} s"
                raise RankZeroSilent(reason) if rank == 0 else self._died(reason)

    def _died(self, reason: str) -> WorkerDied:
        self.died = WorkerDied(reason)
        return self.died

    @contextmanager
    def detecting_deaths(self) -> Iterator[None]:
        """A connection that closes, or an exchange that takes too long, means that a process has died."""
        try:
            yield
        except RuntimeError as error:
            traceback.clear_frames(error.__traceback__)  # they hold the process group, which must end with its run
            until = time.monotonic() + (EXIT_GRACE_S if self.is_rank_zero else REPORT_S)
            while time.monotonic() < until and not self._stop.requested:  # torchrun passes a signal on to all processes
                self.check_alive()
                time.sleep(0.01)
            if not self.is_rank_zero:
                raise WorkerExit(1) from None
            self._stop.raise_if_requested()
            raise self._died(f"a worker process died ({first_line(error)})") from None


def _vectors(server: ServerState) -> dict[str, Tensor]:
    own = {name: vector for name, vector in server.state.items() if vector is not None}
    return {"weights": server.weights, "buffers": server.buffers} | own


def shapes_of(states: States) -> Shapes:
    """What the receiver of these states needs in advance."""
    return {
        k: state if isinstance(state, str) else {name: (v.shape, v.dtype) for name, v in state.items()}
        for k, state in states.items()
    }


def _send(states: States, rank: int) -> None:
    for state in states.values():
        if not isinstance(state, str):
            for vector in state.values():
                distributed.send(vector, rank)


def _receive(shapes: Shapes, source: int) -> States:
    states: dict[int, ClientState | str] = {}
    for k, layout in shapes.items():
        if isinstance(layout, str):
            states[k] = layout
            continue
        state = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in layout.items()}
        for vector in state.values():
            distributed.recv(vector, source)
        states[k] = state
    return states
