"""The front door: compose with Hydra, check, run the study, say what came out. A mistake gets one line."""

import os
import shlex
import sys
from contextlib import nullcontext
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fedpan_exp.system.errors import Diverged, UserError
from fedpan_exp.system.paths import CONF

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from fedpan_exp.config import Experiment
    from fedpan_exp.sweeping.progress import SweepProgress
    from fedpan_exp.tracking.record import Record

course: "SweepProgress | None" = None  # of the sweep that this process runs job by job
PLAN = ("plan=true", "plan=yes", "plan=on", "plan=1")


def main() -> None:
    words = sys.argv[1:]
    if {"--help", "-h"} & set(words):
        from fedpan_exp.cli.help import help_text  # before torch is loaded: help comes at once

        print(help_text())
        return
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra hands us its errors instead of printing them
    try:
        compose_and_run(words)
    except UserError as error:
        report(error)
        raise SystemExit(1) from None
    except KeyboardInterrupt as stop:
        why, again = getattr(stop, "reason", "interrupted"), shlex.join(["python", "-m", "fedpan_exp", *words])
        report(UserError(f"{why}; the same command goes on from there: {again}"))
        raise SystemExit(getattr(stop, "exit_code", 130)) from None


def compose_and_run(words: list[str]) -> None:
    from fedpan_exp import config  # here, and not above, so that Ctrl-C while torch is loaded ends in one line, too
    from fedpan_exp.config.hydra_errors import HYDRA_ERRORS, NOTHING_CHOSEN, one_line
    from fedpan_exp.federation import torchrun
    from fedpan_exp.studies import STUDIES
    from fedpan_exp.sweeping.grids import expand
    from fedpan_exp.system.console import console, errors

    config.register(STUDIES)
    if torchrun.is_launched():
        torchrun.connect()
        console.quiet = errors.quiet = torchrun.rank() > 0
    try:
        if {word for word in words if word.startswith("-")} - {"-m", "--multirun"}:
            launch([words])  # Hydra's other flags only ask for words
        elif any(word.startswith(("-", "sweeps=", "hydra.mode=")) or word.lower() in PLAN for word in words):
            sweep(words, expand(words))
        else:
            launch([words])
    except (*HYDRA_ERRORS, ValueError) as error:
        if not isinstance(error, HYDRA_ERRORS) and not str(error).startswith(NOTHING_CHOSEN):
            raise
        raise UserError(one_line(error, words)) from None


def sweep(words: list[str], commands: list[list[str]]) -> None:
    """Check all jobs before the first starts; then show the plan, or run them."""
    from fedpan_exp.federation import torchrun

    if torchrun.is_launched():
        raise UserError("torchrun must be given one run: for sweeps and plans leave it out, or start one for each job")
    from fedpan_exp.sweeping import manifest, plan, summary
    from fedpan_exp.sweeping.jobs import Refused, checked_already, read_jobs
    from fedpan_exp.sweeping.progress import SweepProgress, watched

    try:
        jobs = read_jobs(commands)
    except Refused as refused:
        for mistake in refused.mistakes[:-1]:
            report(UserError(mistake))
        raise
    if any(word.lower() in PLAN for word in words):
        if jobs is None:
            raise UserError("plan must be false with a sweeper that chooses as it goes, got true")
        plan.show(jobs)
        return
    if jobs:
        manifest.write(jobs.jobs, words)
    global course
    course = SweepProgress(jobs.jobs) if jobs and jobs.in_turn else None
    try:
        with checked_already(), watched(jobs.jobs) if jobs and not jobs.in_turn else nullcontext():
            launch(commands)
    finally:
        summary.conclude(jobs, words) if jobs else summary.conclude_search(words)


def launch(commands: list[list[str]]) -> None:
    """Hand each command to Hydra; a job that fails does not stop the others, and is heard of at the end."""
    import hydra

    failure: Exception | None = None
    for command in commands:
        flags = [word for word in command if word in ("-m", "--multirun")]  # Hydra takes them only in front
        sys.argv[1:] = [*flags[:1], *(word for word in command if word not in flags)]
        try:
            hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(run)()
        except Exception as error:
            failure = failure or error
    if failure:
        raise failure


def run(cfg: "DictConfig") -> float | None:
    """One experiment, as Hydra's job: returns its last-five accuracy, for sweepers that search."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    from fedpan_exp import config
    from fedpan_exp.federation import torchrun
    from fedpan_exp.report.run_plots import draw
    from fedpan_exp.tracking.record import Record

    hydra = HydraConfig.get()
    try:
        experiment = config.read(cfg)
        settings: Any = OmegaConf.to_container(cfg, resolve=True)
        if experiment.plan:
            raise UserError("plan must be given on the command line, as plan=true")
        if torchrun.rank():
            assist(experiment, settings)
            return None
        irrelevant, words = experiment.study.irrelevant, hydra.overrides.task
        record = Record(settings, experiment.logger, irrelevant, words, draw, experiment.pans_off)
        if hydra.mode == RunMode.RUN:
            return perform(experiment, record)
        return perform_in_sweep(experiment, record)
    except UserError as error:
        report(error)
        if hydra.mode == RunMode.RUN:
            raise SystemExit(1) from None  # not an Exception: Hydra adds nothing to it
        raise  # a sweep goes on, and ends with an error


def perform(experiment: "Experiment", record: "Record") -> float | None:
    from fedpan_exp.cli.run_output import announce, conclude
    from fedpan_exp.system.signals import graceful_shutdown
    from fedpan_exp.tracking.record import FINISHED

    announce(record)
    if record.status in FINISHED and not experiment.rerun:
        return conclude(record, earlier=True)
    with graceful_shutdown() as stop:
        try:
            with record:
                experiment.study.run(experiment, record, stop)
        except Diverged:
            conclude(record)  # what came out until then
            raise
        last5 = conclude(record)
        stop.raise_if_requested()  # the run was about to end anyway; a sweep goes no further
        return last5


def assist(experiment: "Experiment", settings: dict[str, Any]) -> None:
    """As one of torchrun's processes that help the first: the same work, but what it would record is thrown away."""
    from fedpan_exp.system.signals import graceful_shutdown
    from fedpan_exp.tracking.logger import LoggerSettings
    from fedpan_exp.tracking.record import Record

    with TemporaryDirectory() as folder, graceful_shutdown() as stop:
        record = Record({**settings, "runs": folder}, LoggerSettings(), experiment.study.irrelevant)
        experiment.study.run(experiment, record, stop)


def perform_in_sweep(experiment: "Experiment", record: "Record") -> float | None:
    """Once, however many jobs are the same experiment; what others work on is left to them."""
    from fedpan_exp.cli.run_output import remark
    from fedpan_exp.system.signals import Interrupted
    from fedpan_exp.tracking.lock import RunLocked
    from fedpan_exp.tracking.record import FINISHED

    is_new = course.enter(record.name) if course else True
    if record.status in FINISHED and not (experiment.rerun and is_new):
        return remark(record)
    try:
        last5 = perform(experiment, record)
    except RunLocked as held:
        report(UserError(f"passed over: {held}"))
        return None
    except Interrupted as interruption:
        if interruption.ends_sweep:
            raise
        raise UserError(f"{record.name}: {interruption.reason}; the same command goes on with it") from None
    if course:
        course.worked()
    return last5


def report(error: UserError) -> None:
    """Say it once, however many hands the error passes through."""
    from fedpan_exp.system.console import errors

    if not getattr(error, "reported", False):
        errors.print(f"fedpan_exp: {error}", markup=False)
        error.reported = True  # type: ignore[attr-defined]
