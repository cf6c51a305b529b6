"""Progress of a sweep: a line before each job or, if other processes run the jobs, after each finished run."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fedpan_exp.sweeping.jobs import Job
from fedpan_exp.system.console import clock, console, progress_bar
from fedpan_exp.tracking.record import FINISHED

POLL_S = 2.0


class SweepProgress:
    """Progress of a sweep whose jobs this process runs one after another."""

    def __init__(self, jobs: Sequence[Job]):
        self._runs = [job.record.name for job in jobs]
        self._started_at = time.monotonic()
        self._seen: set[str] = set()
        self._jobs_started = self._runs_timed = 0

    def start_job(self, name: str) -> bool:
        """Print the progress; return whether this run has not come up before."""
        self._jobs_started += 1
        left = len({*self._runs} - self._seen)
        elapsed = time.monotonic() - self._started_at
        time_left = f", {clock(elapsed / self._runs_timed * left)} left" if self._runs_timed else ""
        runs_left = f"{left} {'run' if left == 1 else 'runs'} to go{time_left}"
        console.print(f"\nsweep  job {self._jobs_started}/{len(self._runs)}, {runs_left}", markup=False)
        is_new = name not in self._seen
        self._seen.add(name)
        return is_new

    def count_run(self) -> None:
        """Count a run that was trained, not skipped, for the time estimate."""
        self._runs_timed += 1


@contextmanager
def show_finished_runs(jobs: Sequence[Job]) -> Iterator[None]:
    """Show the runs that other processes finish, by polling their folders."""
    runs = {job.record.name: job.record for job in jobs}
    all_done = threading.Event()

    def count_finished() -> int:
        return sum(record.status in FINISHED for record in runs.values())

    def poll() -> None:
        with progress_bar("sweep", len(runs), log_lines=len(runs), done=count_finished()) as progress:
            is_last = False
            while not is_last:
                is_last = all_done.wait(POLL_S)  # poll once more at the end
                finished = count_finished()
                if finished > progress.done:
                    progress.advance(finished - progress.done)
                    progress.describe(f"{finished}/{len(runs)} runs done")

    poller = threading.Thread(target=poll, daemon=True)
    poller.start()
    try:
        yield
    finally:
        all_done.set()
        poller.join()
