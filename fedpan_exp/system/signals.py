"""A polite end: a signal is noted when it comes, and heeded where nothing is half done."""

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from fedpan_exp.system.console import warn

T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """Not an Exception: it ends a whole sweep, not one job of it, unless only this run has come to grief."""

    reason = "interrupted"  # for the user
    ends_sweep = True

    def __init__(self, number: int, cleanly: bool = True):
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number
        self.cleanly = cleanly  # nothing is half done


class Stop:
    """Whether somebody has asked to stop."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self.is_polled = False  # whether there is work under way that will heed it

    def interruptible(self, items: Iterable[T]) -> Iterator[T]:
        """Pass items on until somebody asks to stop."""
        self.is_polled = True
        for item in items:
            self.raise_if_requested()
            yield item

    def raise_if_requested(self) -> None:
        if self.asked is not None:
            raise Interrupted(self.asked)


@contextmanager
def graceful_shutdown() -> Iterator[Stop]:
    """SIGINT (Ctrl-C) and SIGTERM (a scheduler's word) ask to stop. The second time, and before there is anything to
    lose, they end at once."""
    stop = Stop()

    def note(number: int, _: FrameType | None) -> None:
        if stop.asked is not None or not stop.is_polled:
            raise Interrupted(number, cleanly=False)
        stop.asked = number
        warn("stopping: a checkpoint, then the end; once more ends at once")

    if threading.current_thread() is not threading.main_thread():  # only the main thread hears signals
        yield stop
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
