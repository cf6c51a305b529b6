"""Progress of a sweep: one line per run with the settings that differ, its result and the time left."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from fedpan_exp.config.choices import describe_choices
from fedpan_exp.config.settle import Settle
from fedpan_exp.sweeping.grids import swept_settings
from fedpan_exp.sweeping.jobs import Job
from fedpan_exp.system.console import clock, console, counted, error_console, print_status

POLL_S = 2.0


class SweepProgress:
    """Prints a line when a run has ended, whichever process has run it."""

    def __init__(self, sweep: str | None):
        self._heading = f"sweep  {sweep}, " if sweep else "sweep  "
        self._runs: list[Job] = []
        self._to_run: list[Job] = []
        self._launched = 0
        self._started_at = time.monotonic()
        self._status_before: dict[str, int | None] = {}
        self._one_at_a_time = threading.Lock()  # the thread that polls, and the one that launches

    def add(self, runs: Sequence[Job], to_run: Sequence[Job]) -> None:
        """Add runs to the sweep; those not `to_run` were finished before."""
        self._runs += runs
        self._to_run += to_run
        self._launched += len(to_run)
        self._swept = swept_settings([job.overrides for job in self._runs])
        self._width = max((len(job.label(self._swept)) for job in self._runs), default=0)
        self._status_before |= {job.name: _status_time(job) for job in runs}

    def show_start(self, jobs: int) -> None:
        """Print what will run, the settings that nobody typed, and the results of runs that were finished before."""
        shared = f"{jobs} jobs share " if jobs > len(self._runs) else ""
        finished = [job for job in self._runs if job not in self._to_run]
        runs = counted(len(self._runs), "run")
        console.print(f"{self._heading}{shared}{runs}, {len(finished)} finished before", markup=False)
        choices = [choice for job in self._runs for choice in job.choices if choice.setting not in self._swept]
        if choices:
            print_status("chosen", describe_choices(choices))
        for number, job in enumerate(finished, 1):
            self._print(number, job, f"{job.record.status} before")

    def show_settling(self, comparisons: int, settle: Settle) -> None:
        """Print what a sweep with seed=auto will do."""
        budget = f"at most {counted(settle.seeds, 'seed')} each, {settle.hours:g} hours"
        goal = f"until known to {settle.margin:g} points or not 0"
        console.print(f"{self._heading}{counted(comparisons, 'comparison')}, {goal}; {budget}", markup=False)

    def has_started(self, job: Job) -> bool:
        """Whether any process has worked on the run since the sweep started."""
        return _status_time(job) != self._status_before[job.name]

    def show_done(self) -> None:
        """Print a line for each run that is done and has not been shown yet."""
        with self._one_at_a_time:
            for job in [job for job in self._to_run if job.record.status == "done" and self.has_started(job)]:
                self._to_run.remove(job)
                ended = self._launched - len(self._to_run)
                time_left = (time.monotonic() - self._started_at) / ended * len(self._to_run)
                number = len(self._runs) - len(self._to_run)
                self._print(number, job, _duration(job), f"{clock(time_left)} left" if self._to_run else "")

    def show_error(self, job: Job, error: str) -> None:
        with self._one_at_a_time:
            if job in self._to_run:
                self._to_run.remove(job)
        settings = f"{job.label(self._swept)}: " if self._swept else ""
        error_console.print(f"fedpan_exp: {settings}{error}", markup=False)

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Show the runs that other processes finish, by polling their folders."""
        all_ended = threading.Event()

        def poll() -> None:
            while not all_ended.wait(POLL_S):
                self.show_done()

        poller = threading.Thread(target=poll, daemon=True)
        poller.start()
        try:
            yield
        finally:
            all_ended.set()
            poller.join()

    def _print(self, number: int, job: Job, *more: str) -> None:
        label = f"{job.label(self._swept):<{self._width}}"
        parts = ["sweep", f"{number:>{len(str(len(self._runs)))}}/{len(self._runs)}", label, job.accuracy, *more]
        console.print("  ".join(filter(None, parts)), markup=False)


def _status_time(job: Job) -> int | None:
    try:
        return (job.record.folder / "status.json").stat().st_mtime_ns
    except OSError:
        return None


def _duration(job: Job) -> str:
    status = job.run.status_file
    seconds = datetime.fromisoformat(status["ended"]) - datetime.fromisoformat(status["started"])
    return clock(seconds.total_seconds())
