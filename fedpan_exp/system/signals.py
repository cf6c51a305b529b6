"""Graceful shutdown: a signal is recorded when it arrives, and acted on at the next safe point."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from fedpan_exp.system.console import warn

T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """Ends the run. Not an Exception, so it ends the whole sweep too, unless `ends_sweep` is false."""

    reason = "interrupted"  # for the user
    ends_sweep = True
    saved_round: int | None = None  # the round after which the run will resume, if known

    def __init__(self, signum: int, cleanly: bool = True):
        super().__init__(signal.Signals(signum).name)
        self.exit_code = 128 + signum
        self.cleanly = cleanly  # no work is half done


class OutputClosed(Interrupted):
    """Whoever read the output has gone."""

    reason = "nobody reads the output any more"

    def __init__(self) -> None:
        super().__init__(signal.SIGPIPE)


def describe_interruption(interruption: KeyboardInterrupt) -> str:
    """Say why a run has ended and, if known, after which round it will resume."""
    saved_round = getattr(interruption, "saved_round", None)
    after = f" after round {saved_round}" if saved_round else ""
    return f"{getattr(interruption, 'reason', 'interrupted')}{after}"


@contextmanager
def nothing_begun() -> Iterator[None]:
    """End at once on Ctrl-C: an exception in the middle of an import would end in a traceback, or in a wrong one."""

    def end(signum: int, frame: FrameType | None) -> None:
        os.write(2, b"fedpan_exp: interrupted; nothing had begun\n")
        os._exit(128 + signum)

    with _handling(signal.SIGINT, end):
        yield


class StopRequest:
    """Whether a signal has requested a stop. Work that can stop early polls it."""

    def __init__(self) -> None:
        self._signum: int | None = None
        self.is_polled = False  # whether work is under way that polls this request

    @property
    def requested(self) -> bool:
        return self._signum is not None

    def request(self, signum: int) -> None:
        self._signum = signum

    def interruptible(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items until a stop is requested."""
        self.is_polled = True
        for item in items:
            self.raise_if_requested()
            yield item

    def raise_if_requested(self) -> None:
        if self._signum is not None:
            raise Interrupted(self._signum)


@contextmanager
def graceful_shutdown() -> Iterator[StopRequest]:
    """Let SIGINT (Ctrl-C) and SIGTERM (from a scheduler) request a stop.

    A second signal, or one that arrives before any work polls the request, ends the run at once.
    """
    stop = StopRequest()

    def handle(signum: int, _: FrameType | None) -> None:
        if stop.requested or not stop.is_polled:
            raise Interrupted(signum, cleanly=False)
        stop.request(signum)
        warn("stopping after a checkpoint; a second signal ends the run at once")

    with _handling(signal.SIGINT, handle), _handling(signal.SIGTERM, handle):
        yield stop


@contextmanager
def end_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise Interrupted, as Ctrl-C raises KeyboardInterrupt, where nothing polls a request to stop."""

    def handle(signum: int, _: FrameType | None) -> None:
        raise Interrupted(signum, cleanly=False)

    with _handling(signal.SIGTERM, handle):
        yield


@contextmanager
def _handling(signum: int, handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle a signal in this context. Python delivers signals to the main thread only: in others, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signum, handler)
    try:
        yield
    finally:
        signal.signal(signum, previous)
