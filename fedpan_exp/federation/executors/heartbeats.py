"""Signs of life between the processes of a run: who has come to a meeting, and who still makes progress.

Processes meet before they exchange anything, so that an exchange never waits long and can have a timeout.
"""

import atexit
import math
import mmap
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from torch.distributed import Store

BEAT_S = 1.0  # between two beats of a process that waits or prepares something
LISTEN_S = 0.05  # between two looks at the beats of the others, if looking costs nothing
LONGEST_GAP_S = 2 * BEAT_S  # that counts between two looks: after Ctrl-Z and fg the others are not to blame
START_S = 600.0  # that a process may take in addition until its first beat: machines start at different times
ENDED = -1  # instead of the beats of a process that has ended by itself


class Heartbeats(ABC):
    """Counters of each rank that all ranks can read."""

    def __init__(self, rank: int, size: int):
        self.rank, self.size = rank, size
        self._heard, self._silent_s, self._listened = [0] * size, [0.0] * size, time.monotonic()

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
    def silent_s(self) -> Sequence[float]:
        """Seconds since the last sign of life of each rank; infinite if it has ended. To be called again and again."""

    def met(self, ranks: Sequence[int]) -> None:
        """Take note that these ranks have come to a meeting, which is a sign of life."""
        for rank in ranks:
            self._silent_s[rank] = 0.0

    @abstractmethod
    def _beats(self) -> list[int]:
        """Progress of each rank; only changes mean something."""

    def _listen(self) -> None:
        """Update how long each rank has been silent."""
        now, beats = time.monotonic(), self._beats()
        elapsed = min(now - self._listened, LONGEST_GAP_S)
        for rank in range(self.size):
            silent = self._silent_s[rank] + elapsed if beats[rank] == self._heard[rank] else 0.0
            self._silent_s[rank] = math.inf if beats[rank] == ENDED else silent
        self._heard, self._listened = beats, now

    @contextmanager
    def only_progress(self) -> Iterator[None]:
        """In this context only `beat` counts as a sign of life, not that the process exists."""
        yield


class SharedHeartbeats(Heartbeats):
    """In memory that forked processes share."""

    def __init__(self, size: int):
        super().__init__(0, size)
        self._arrivals, self._counts = (memoryview(mmap.mmap(-1, 8 * size)).cast("q") for _ in range(2))

    def arrive(self) -> int:
        self._arrivals[self.rank] += 1
        return self._arrivals[self.rank]

    def beat(self) -> None:
        self._counts[self.rank] += 1

    def arrivals(self) -> Sequence[int]:
        return self._arrivals.tolist()

    def silent_s(self) -> Sequence[float]:
        if time.monotonic() - self._listened >= LISTEN_S:
            self._listen()
        return self._silent_s

    def _beats(self) -> list[int]:
        return self._counts.tolist()


class StoreHeartbeats(Heartbeats):
    """In torchrun's key-value store, for processes on several machines.

    A thread sends the beats and reads those of the others, so that a batch does not wait for the network, and goes on
    while an exchange blocks the process. It beats by itself while the process loads data, evaluates or fuses models,
    which give no sign of their progress.
    """

    def __init__(self, rank: int, size: int, store: Store):
        super().__init__(rank, size)
        self._store = store
        self._known: set[int] = set()  # ranks that have given a sign of life
        self._met = self._count = 0
        self._beats_by_itself, self._closed = True, threading.Event()
        for name in ("arrivals", "beats"):
            for other in range(size):
                store.add(self._key(name, other), 0)  # whoever is first creates it: reading a missing key would block
        self._thread = threading.Thread(target=self._send_and_listen, daemon=True)
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

    def silent_s(self) -> Sequence[float]:
        return [silent if rank in self._known else silent - START_S for rank, silent in enumerate(self._silent_s)]

    def met(self, ranks: Sequence[int]) -> None:
        super().met(ranks)
        self._known.update(ranks)

    def _beats(self) -> list[int]:
        beats = self._read("beats")
        self._known.update(rank for rank, count in enumerate(beats) if count)
        return beats

    @contextmanager
    def only_progress(self) -> Iterator[None]:
        self._beats_by_itself = False
        try:
            yield
        finally:
            self._beats_by_itself = True

    def close(self) -> None:
        """Announce that this process ends."""
        self._closed.set()
        self._thread.join()
        with suppress(RuntimeError):  # the store has ended before
            self._store.set(self._key("beats", self.rank), str(ENDED))

    def _read(self, name: str) -> list[int]:
        return [int(value) for value in self._store.multi_get([self._key(name, rank) for rank in range(self.size)])]

    @staticmethod
    def _key(name: str, rank: int) -> str:
        return f"fedpan_exp/{name}/{rank}"

    def _send_and_listen(self) -> None:
        while not self._closed.wait(BEAT_S):
            if self._beats_by_itself:
                self.beat()
            try:
                self._store.set(self._key("beats", self.rank), str(self._count))
                self._listen()
            except RuntimeError:  # the store has ended, and with it the run
                return
