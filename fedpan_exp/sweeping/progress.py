"""How far a sweep has come: a line before each job, or, where others run the jobs, a line when one has ended."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fedpan_exp.sweeping.jobs import Job
from fedpan_exp.system.console import clock, console, progress_bar
from fedpan_exp.tracking.record import FINISHED

WATCH = 2.0  # seconds between two looks


class SweepProgress:
    """Of a sweep whose jobs this process runs one after another."""

    def __init__(self, jobs: Sequence[Job]):
        self._runs = [job.record.name for job in jobs]
        self._began = time.monotonic()
        self._seen: set[str] = set()
        self._entered = self._worked = 0

    def enter(self, name: str) -> bool:
        """Say where the sweep is; whether this run comes up for the first time."""
        self._entered += 1
        left = len({*self._runs} - self._seen)
        spent = time.monotonic() - self._began
        time_left = f", {clock(spent / self._worked * left)} left" if self._worked else ""
        console.print(f"\nsweep  job {self._entered}/{len(self._runs)}, {left} runs to go{time_left}", markup=False)
        is_new = name not in self._seen
        self._seen.add(name)
        return is_new

    def worked(self) -> None:
        """A run was not only looked at."""
        self._worked += 1


@contextmanager
def watched(jobs: Sequence[Job]) -> Iterator[None]:
    """Tell of runs that other processes finish, from their folders."""
    runs = {job.record.name: job.record for job in jobs}
    ended = threading.Event()

    def finished() -> int:
        return sum(record.status in FINISHED for record in runs.values())

    def watch() -> None:
        before = finished()
        with progress_bar("sweep", len(runs), log_lines=len(runs), done=before) as progress:
            over = False
            while not over:
                over = ended.wait(WATCH)  # one more look when all is over
                now = finished()
                if now > progress.done:
                    progress.advance(now - progress.done)
                    progress.describe(f"{now}/{len(runs)} runs done")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
