"""What the ranks of a run say to each other, through Fabric and torch.distributed."""

import os
import signal
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from lightning import Fabric
from torch import Tensor, distributed

from fedpan_exp.algorithms import ServerState
from fedpan_exp.federation.client_states import ClientState
from fedpan_exp.system.errors import first_line
from fedpan_exp.system.signals import Interrupted, StopRequest

T = TypeVar("T")
Parcel = Mapping[int, ClientState | str]  # what clients remember: vectors, or the file that holds them
Label = Mapping[int, Any]
POLL_S = 0.0002  # seconds between two looks at whether the others have come
LAST_WORDS = 1.0  # seconds until a process whose connection has closed can be asked what it died of


class Lost(Interrupted):
    """A rank has died. The others have lost nothing: the run can go on from its last whole round."""

    ends_sweep = False

    def __init__(self, what: str):
        KeyboardInterrupt.__init__(self, what)
        self.exit_code, self.cleanly, self.reason = 1, True, what


class Dismissed(SystemExit):
    """A helper's work is over; whatever the reason, rank 0 will say it."""


@dataclass
class Team:
    """The ranks as one of them sees them. Alone, all of this comes to nothing."""

    stop: StopRequest
    rank: int = 0
    size: int = 1
    fabric: Fabric | None = None  # that all ranks share; each trains with one of its own
    helpers: dict[int, int] = field(default_factory=dict)  # processes that rank 0 has forked
    leader: int | None = None  # the process that has forked us
    lost: Lost | None = None  # what the others would be told, were they in their places

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def watch(self, items: Iterable[T]) -> Iterator[T]:
        """Pass items on until somebody asks to stop, or dies."""
        for item in self.stop.interruptible(items):
            self._look_around()
            yield item

    def print_status(self, *words: int) -> list[int]:
        """Rank 0's words, to all of them; the others say as many, which are not heard."""
        if self.size == 1:
            return list(words)
        if self.lost:
            raise self.lost
        told = torch.tensor(words)
        with self._talking():
            distributed.broadcast(told, src=0)
        return told.tolist()

    def gather(self, mine: T) -> list[T]:
        """What each of the ranks has, to all of them."""
        if self.size == 1:
            return [mine]
        found: list[Any] = [None] * self.size
        with self._talking():
            self._meet()
            distributed.all_gather_object(found, mine)
        return found

    def add(self, vectors: Sequence[Tensor]) -> None:
        """Each vector becomes its sum over the ranks, in place; all in one exchange.

        Not through Fabric, whose all_reduce begins with a barrier: of a short round that would be felt.
        """
        if self.size == 1:
            return
        whole = torch.cat(list(vectors))  # in the widest precision among them
        with self._talking():
            distributed.all_reduce(whole)
        for vector, total in zip(vectors, whole.split([len(vector) for vector in vectors]), strict=True):
            vector.copy_(total)

    def share(self, server: ServerState) -> None:
        """Everybody's server becomes rank 0's."""
        if self.fabric is None:
            return
        with self._talking():
            kinds = {name: (v.shape, v.dtype, v.device.type) for name, v in _vectors(server).items()}
            for name, (shape, dtype, device) in self.fabric.broadcast(kinds).items():
                vector = _vectors(server).get(name)
                if vector is None:
                    place = server.weights.device if device != "cpu" else "cpu"
                    vector = server.state[name] = torch.empty(shape, dtype=dtype, device=place)
                distributed.broadcast(vector, src=0)

    def hand_out(self, parcels: Sequence[Parcel]) -> Parcel:
        """From rank 0 a parcel to each; returns one's own."""
        labels = [label(parcel) for parcel in parcels] if self.leads else [{}] * self.size
        mine: list[Any] = [None]
        with self._talking():
            distributed.scatter_object_list(mine, labels, src=0)
            if not self.leads:
                return _unpack(mine[0], source=0)
            for rank in range(1, self.size):
                _send(parcels[rank], rank)
        return parcels[0]

    def hand_in(self, parcel: Parcel, labels: Sequence[Label]) -> list[Parcel]:
        """From each a parcel to rank 0, which has its label; returns those of the others."""
        with self._talking():
            if self.leads:
                return [_unpack(labels[rank], rank) for rank in range(1, self.size)]
            _send(parcel, 0)
        return []

    def _meet(self) -> None:
        """Wait for the slowest, with an eye on signals, which nobody hears inside of a collective operation."""
        work = distributed.barrier(async_op=True)
        assert work is not None
        while not work.is_completed():
            self.stop.raise_if_requested()
            self._look_around()
            time.sleep(POLL_S)
        work.wait()

    def _look_around(self) -> None:
        if self.leader is not None and os.getppid() != self.leader:
            raise Dismissed(0)
        for rank, process in self.helpers.items():
            if end := os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                killed = end.si_code != os.CLD_EXITED
                how = f"was killed by {signal.Signals(end.si_status).name}" if killed else "ended by itself"
                self.lost = Lost(f"rank {rank} {how}")
                raise self.lost

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """A connection that closes means that a rank has died."""
        try:
            yield
        except RuntimeError as error:
            traceback.clear_frames(error.__traceback__)  # they hold the process group, which is to end with its run
            if not self.leads:
                raise Dismissed(0) from None
            until = time.monotonic() + LAST_WORDS
            while time.monotonic() < until:
                self._look_around()
                time.sleep(0.01)
            self.stop.raise_if_requested()  # torchrun passes a signal on to all of them
            self.lost = Lost(f"a rank has died ({first_line(error)})")
            raise self.lost from None


def _vectors(server: ServerState) -> dict[str, Tensor]:
    return {"weights": server.weights, "buffers": server.buffers} | {
        k: v for k, v in server.state.items() if v is not None
    }


def label(parcel: Parcel) -> Label:
    """What a parcel holds, for whoever has to make room for it."""
    return {
        k: state if isinstance(state, str) else {name: (v.shape, v.dtype) for name, v in state.items()}
        for k, state in parcel.items()
    }


def _send(parcel: Parcel, rank: int) -> None:
    for state in parcel.values():
        if not isinstance(state, str):
            for vector in state.values():
                distributed.send(vector, rank)


def _unpack(label: Label, source: int) -> Parcel:
    parcel: dict[int, ClientState | str] = {}
    for k, kinds in label.items():
        if isinstance(kinds, str):
            parcel[k] = kinds
            continue
        state = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in kinds.items()}
        for vector in state.values():
            distributed.recv(vector, source)
        parcel[k] = state
    return parcel
