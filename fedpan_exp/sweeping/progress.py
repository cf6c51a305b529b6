"""Progress of a sweep: one line per run with the settings that differ, its result and the time left."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from fedpan_exp.config.choices import describe_choices
from fedpan_exp.config.settle import Settle
from fedpan_exp.sweeping.grids import as_settings, swept_settings
from fedpan_exp.sweeping.jobs import Job
from fedpan_exp.system.console import clock, console, error_console, print_status
from fedpan_exp.tracking.runs import RunEntry

POLL_S = 2.0


class SweepProgress:
    """Prints a line when a run has ended, whichever process has run it."""

    def __init__(self, runs: Sequence[Job]):
        self._runs: list[Job] = []
        self._to_run: list[Job] = []
        self._finished_before = 0
        self._started_at = time.monotonic()
        self._status_before: dict[str, int | None] = {}
        self._add(runs)

    def extend(self, runs: Sequence[Job], to_run: Sequence[Job]) -> None:
        """Add runs that were chosen in the meantime; those not `to_run` have finished."""
        self._add(runs)
        self._to_run += to_run

    def _add(self, runs: Sequence[Job]) -> None:
        self._runs += runs
        self._swept = swept_settings([job.overrides for job in self._runs])
        self._labels = {job.name: self._label(job) for job in self._runs}
        self._width = max(map(len, self._labels.values()), default=0)
        self._status_before |= {job.name: _status_time(job) for job in runs}

    def start(self, sweep: str | None, jobs: int, to_run: Sequence[Job]) -> None:
        """Print what will run, the settings that nobody typed, and the results of runs that were finished before."""
        self._to_run = list(to_run)
        self._finished_before = len(self._runs) - len(to_run)
        name = f"{sweep}, " if sweep else ""
        shared = f"{jobs} jobs share " if jobs > len(self._runs) else ""
        runs = f"{len(self._runs)} {'run' if len(self._runs) == 1 else 'runs'}"
        console.print(f"sweep  {name}{shared}{runs}, {self._finished_before} finished before", markup=False)
        choices = [choice for job in self._runs for choice in job.choices if choice.setting not in self._swept]
        if choices:
            print_status("chosen", describe_choices(choices))
        for job in self._runs:
            if job not in to_run:
                self._print(job, f"{job.record.status} before")

    def start_settling(self, sweep: str | None, comparisons: int, settle: Settle) -> None:
        """Print what a sweep with seed=auto will do."""
        name = f"{sweep}, " if sweep else ""
        compared = f"{comparisons} {'comparison' if comparisons == 1 else 'comparisons'}"
        budget = f"at most {settle.seeds} {'seed' if settle.seeds == 1 else 'seeds'} each, {settle.hours:g} hours"
        text = f"sweep  {name}{compared}, until known to {settle.margin:g} points or not 0; {budget}"
        console.print(text, markup=False)

    def has_started(self, job: Job) -> bool:
        """Whether any process has worked on the run since the sweep started."""
        return _status_time(job) != self._status_before[job.name]

    def show_done(self) -> None:
        """Print a line for each run that is done and has not been shown yet."""
        for job in [job for job in self._to_run if job.record.status == "done" and self.has_started(job)]:
            self._to_run.remove(job)
            ended = len(self._runs) - len(self._to_run) - self._finished_before
            time_left = (time.monotonic() - self._started_at) / ended * len(self._to_run)
            self._print(job, _duration(job), f"{clock(time_left)} left" if self._to_run else "")

    def show_error(self, job: Job, error: str) -> None:
        if job in self._to_run:
            self._to_run.remove(job)
        settings = f"{self._labels[job.name]}: " if self._swept else ""
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

    def _label(self, job: Job) -> str:
        settings = as_settings(job.overrides)
        return "  ".join(f"{_short(name)}={settings[name]}" for name in self._swept if name in settings)

    def _print(self, job: Job, *more: str) -> None:
        number = len(self._runs) - len(self._to_run)
        accuracy = RunEntry(job.record.folder).summary.get("summary/last5_acc")
        result = "" if accuracy is None else f"{accuracy:.2%}"
        parts = [f"{number}/{len(self._runs)}", f"{self._labels[job.name]:<{self._width}}", result, *more]
        console.print("  ".join(["sweep", *filter(None, parts)]), markup=False)


def _status_time(job: Job) -> int | None:
    try:
        return (job.record.folder / "status.json").stat().st_mtime_ns
    except OSError:
        return None


def _short(name: str) -> str:
    return name.removeprefix("fl_scene.")


def _duration(job: Job) -> str:
    status = RunEntry(job.record.folder).status_file
    seconds = datetime.fromisoformat(status["ended"]) - datetime.fromisoformat(status["started"])
    return clock(seconds.total_seconds())
