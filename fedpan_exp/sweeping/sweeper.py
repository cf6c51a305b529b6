"""A sweep: compose and check all jobs, skip what is finished, hand the rest to a launcher, print a line per run."""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from fedpan_exp.config import AUTO
from fedpan_exp.sweeping import manifest, plan
from fedpan_exp.sweeping.grids import Grids
from fedpan_exp.sweeping.jobs import Job, compose_jobs, distinct, reject_torchrun
from fedpan_exp.sweeping.progress import SweepProgress
from fedpan_exp.sweeping.settle import Settling, print_standings
from fedpan_exp.sweeping.summary import print_summary
from fedpan_exp.system.console import bars_only, quietly, warn
from fedpan_exp.system.errors import UserError, first_line
from fedpan_exp.system.signals import end_on_sigterm
from fedpan_exp.tracking.lock import RunLocked
from fedpan_exp.tracking.record import FINISHED
from fedpan_exp.training import claim_gpu


class JobResult(NamedTuple):
    error: str | None = None
    is_skipped: bool = False  # another process works on the run, or another job has failed with on_error=stop


@dataclass(frozen=True)
class JobTask:
    """The task as launchers call it, possibly in other processes: it returns errors and prints no lines."""

    task: TaskFunction
    is_local: bool  # whether this process runs the jobs, one after another
    stop_file: Path | None  # created when a job fails; the jobs after it do not start

    def __call__(self, cfg: DictConfig) -> JobResult:
        if self.stop_file and self.stop_file.exists():
            return JobResult(is_skipped=True)
        if not self.is_local and cfg.fabric.accelerator != "cpu" and cfg.fabric.devices == 1:
            claim_gpu()
        output: AbstractContextManager[None] = bars_only() if self.is_local else quietly()
        try:
            with output:
                self.task(cfg)
            return JobResult()
        except RunLocked as locked:
            return JobResult(f"skipped: {locked}", is_skipped=True)
        except UserError as error:
            if self.stop_file:
                self.stop_file.touch()
            return JobResult(str(error))


def run_sweep(
    file: str | None, params: Any, master: DictConfig, context: HydraContext, task: TaskFunction
) -> list[JobReturn]:
    """Run a sweep, or show its plan: the grids of a file in sweeps/, and `params`. `master` is Hydra's config of it."""
    reject_torchrun()
    with end_on_sigterm():
        is_auto, compose = master.seed == AUTO, partial(compose_jobs, Grids.read(file, params), master)
        jobs = compose(context.config_loader, seed=0 if is_auto else None)
        if jobs[0].experiment.plan:
            if is_auto:
                plan.show_auto(jobs)
            plan.show(jobs)
            return []
        sweep = Sweep(jobs, master, context, task)
        if not is_auto:
            return sweep.run()
        return sweep.settle(Settling(partial(compose, context.config_loader), jobs[0].experiment.settle))


class Sweep:
    """Jobs with valid settings, and the launcher that runs them."""

    def __init__(self, jobs: Sequence[Job], master: DictConfig, context: HydraContext, task: TaskFunction):
        self._name = master.hydra.runtime.choices.get("sweeps")
        self._jobs, self._runs = jobs, distinct(jobs)
        self._progress = SweepProgress(self._runs)
        self._is_local = master.hydra.runtime.choices["hydra/launcher"] == "basic"
        self._stops = jobs[0].experiment.on_error == "stop"
        has_stop_file = self._stops and not self._is_local
        self._stop_file = Path(master.hydra.sweep.dir, f"stop-{os.getpid()}").absolute() if has_stop_file else None
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=context, task_function=JobTask(task, self._is_local, self._stop_file), config=master
        )
        self._returns: list[JobReturn] = []
        self._failed = 0

    def run(self) -> list[JobReturn]:
        """Run all jobs that are not finished; raise UserError at the end if some have failed."""
        self._write_manifest(self._jobs)
        to_run = [job for job in self._runs if job.experiment.rerun or not _is_finished(job)]
        self._progress.start(self._name, len(self._jobs), to_run)
        with self._summarising():
            self._launch_all(to_run)
        return self._returns

    def settle(self, settling: Settling) -> list[JobReturn]:
        """Run pairs of a setting and its baseline until their differences are known, or the budget is spent."""
        self._runs, self._progress = [], SweepProgress([])
        self._progress.start_settling(self._name, len(settling.comparisons), self._jobs[0].experiment.settle)
        with self._summarising():
            try:
                # Launchers that run jobs in parallel get the next pair of every comparison.
                while jobs := settling.next_pairs(limit=1 if self._is_local else None):
                    self._write_manifest(jobs)
                    new = [job for job in jobs if job.name not in {run.name for run in self._runs}]
                    to_run = [job for job in new if not _is_finished(job)]
                    self._runs += new
                    self._progress.extend(new, to_run)
                    self._launch_all(to_run)
                    if self._failed and self._stops:
                        break
            finally:
                print_standings(settling)
        return self._returns

    @contextmanager
    def _summarising(self) -> Iterator[None]:
        """Print the summary at the end; raise UserError if runs have failed."""
        try:
            yield
        finally:
            if self._stop_file:
                self._stop_file.unlink(missing_ok=True)
            print_summary(self._runs, self._name)
        if self._failed:
            raise UserError(f"{self._failed} of {len(self._runs)} runs failed")

    def _write_manifest(self, jobs: Sequence[Job]) -> None:
        if self._name:
            _, *args = sys.argv
            manifest.write(self._name, jobs, shlex.join(["python", "-m", "fedpan_exp", *args]))

    def _launch_all(self, jobs: Sequence[Job]) -> None:
        if self._is_local:
            self._launch_one_by_one(jobs)
        else:
            with self._progress.polling():
                self._launch_together(jobs)

    def _launch_one_by_one(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if self._progress.has_started(job) and _is_finished(job):  # by another process, in the meantime
                self._progress.show_done()
            else:
                self._launch([job])
            if self._failed and self._stops:
                return

    def _launch_together(self, jobs: Sequence[Job]) -> None:
        """Launch all jobs at once.

        Some launchers give up when one of their processes dies. Then the jobs that had not started are launched again,
        and afterwards one by one those that had: the one that ends its process fails alone.
        """
        suspects: list[Job] = []
        while jobs:
            try:
                self._launch(jobs)
                break
            except RuntimeError as error:  # joblib's TerminatedWorkerError is one
                started = [job for job in jobs if self._progress.has_started(job)]
                if not started:
                    raise
                warn(f"a process of the launcher has ended ({first_line(error)}); the other jobs continue")
                suspects += [job for job in started if not _is_finished(job)]
                jobs = [job for job in jobs if job not in started]
        for job in suspects:
            try:
                self._launch([job])
            except RuntimeError as error:
                self._fail(job, f"its process has ended ({first_line(error)})")

    def _launch(self, jobs: Sequence[Job]) -> None:
        overrides = [job.overrides for job in jobs]
        returns = self._launcher.launch(overrides, initial_job_idx=len(self._returns))
        self._returns += returns
        self._progress.show_done()
        for job, returned in zip(jobs, returns, strict=True):
            result: JobResult = returned.return_value  # raises any error that is not a user's
            if result.error and result.is_skipped:
                self._progress.show_error(job, result.error)
            elif result.error:
                self._fail(job, result.error)

    def _fail(self, job: Job, error: str) -> None:
        self._progress.show_error(job, error)
        self._failed += 1


def _is_finished(job: Job) -> bool:
    return job.record.status in FINISHED
