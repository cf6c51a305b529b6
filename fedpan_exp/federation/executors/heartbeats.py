"""Signs of life between the processes of a run: who has come to a meeting, and who still makes progress.

Processes meet before they exchange anything, so that an exchange never waits long and can have a timeout.
"""

import atexit
import mmap
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch.distributed import Store

BEAT_S = 1.0  # between two beats of a process that waits or prepares something
CHECKS_PER_TIMEOUT = 10


class Heartbeats(ABC):
    """Counters of each rank that all ranks can read."""

    def __init__(self, rank: int, size: int):
        self.rank, self.size = rank, size

    @abstractmethod
    def arrive(self) -> int:
        """Announce that this rank has come to its next meeting; returns the meeting's number."""

    @abstractmethod
    def beat(self) -> None:
        """Announce progress, such as a batch."""

    @abstractmethod
    def arrivals(self) -> Sequence[int]:
        """Meetings that each rank has come to."""

    @abstractmethod
    def beats(self) -> Sequence[int]:
        """Progress of each rank; only changes mean something."""

    @contextmanager
    def only_progress(self) -> Iterator[None]:
        """In this context only `beat` counts as a sign of life, not that the process exists."""
        yield


class SharedHeartbeats(Heartbeats):
    """In memory that forked processes share."""

    def __init__(self, size: int):
        super().__init__(0, size)
        self._arrivals, self._beats = (memoryview(mmap.mmap(-1, 8 * size)).cast("q") for _ in range(2))

    def arrive(self) -> int:
        self._arrivals[self.rank] += 1
        return self._arrivals[self.rank]

    def beat(self) -> None:
        self._beats[self.rank] += 1

    def arrivals(self) -> Sequence[int]:
        return self._arrivals.tolist()

    def beats(self) -> Sequence[int]:
        return self._beats.tolist()


class StoreHeartbeats(Heartbeats):
    """In torchrun's key-value store, for processes on several machines.

    A thread sends the beats, so that a batch does not wait for the network. It beats by itself while the process loads
    data, evaluates or fuses models, which give no sign of their progress.
    """

    def __init__(self, rank: int, size: int, store: Store):
        super().__init__(rank, size)
        self._store = store
        self._met = self._count = 0
        self._beats_by_itself, self._closed = True, threading.Event()
        for name in ("arrivals", "beats"):
            store.set(self._key(name, rank), "0")
        self._thread = threading.Thread(target=self._send_beats, daemon=True)
        self._thread.start()
        atexit.register(self.close)  # a thread inside the store's code would crash the end of the program

    def arrive(self) -> int:
        self._met += 1
        self._store.set(self._key("arrivals", self.rank), str(self._met))
        return self._met

    def beat(self) -> None:
        self._count += 1

    def arrivals(self) -> Sequence[int]:
        return self._read("arrivals")

    def beats(self) -> Sequence[int]:
        return self._read("beats")

    @contextmanager
    def only_progress(self) -> Iterator[None]:
        self._beats_by_itself = False
        try:
            yield
        finally:
            self._beats_by_itself = True

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _read(self, name: str) -> list[int]:
        return [int(value) for value in self._store.multi_get([self._key(name, rank) for rank in range(self.size)])]

    @staticmethod
    def _key(name: str, rank: int) -> str:
        return f"fedpan_exp/{name}/{rank}"

    def _send_beats(self) -> None:
        while not self._closed.wait(BEAT_S):
            if self._beats_by_itself:
                self.beat()
            try:
                self._store.set(self._key("beats", self.rank), str(self._count))
            except RuntimeError:  # the store has ended, and with it the run
                return


class SilenceWatch:
    """Measures for how long ranks have given no sign of life, while this process waits for them."""

    def __init__(self, heartbeats: Heartbeats, timeout: float):
        self._heartbeats, self._timeout = heartbeats, timeout
        self._every = min(timeout / CHECKS_PER_TIMEOUT, BEAT_S)
        self._beats: Sequence[int] = []
        self._silent = [0.0] * heartbeats.size
        self._checked = time.monotonic()

    def find_silent(self, ranks: Sequence[int]) -> int | None:
        """One of these ranks that has been silent for the timeout, if there is one; to be called again and again."""
        elapsed = time.monotonic() - self._checked
        if elapsed < self._every:
            return None
        self._checked += elapsed
        beats = self._heartbeats.beats()
        for rank in ranks:
            is_silent = bool(self._beats) and beats[rank] == self._beats[rank]
            # After Ctrl-Z and fg, the time in which this process could not listen does not count.
            self._silent[rank] = self._silent[rank] + min(elapsed, 2 * self._every) if is_silent else 0.0
        self._beats = beats
        return next((rank for rank in ranks if self._silent[rank] >= self._timeout), None)
