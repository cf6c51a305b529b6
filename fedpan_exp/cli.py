"""The front door: compose with Hydra, check, run the study, say what came out. A mistake gets one line."""

import os
import shlex
import sys
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fedpan_exp import torchrun
from fedpan_exp.checks import Diverged, UserError
from fedpan_exp.folders import CONF

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from fedpan_exp.experiment import Experiment
    from fedpan_exp.sweep import Course
    from fedpan_exp.tracking.record import Record

course: "Course | None" = None  # of the sweep that this process runs job by job


def main() -> None:
    if {"--help", "-h"} & set(sys.argv[1:]):
        from fedpan_exp.help import help_text  # before torch is loaded: help comes at once

        print(help_text())
        return
    for flag in {"-m", "--multirun"} & set(sys.argv[1:]):  # Hydra takes it only in front of the settings
        sys.argv.remove(flag)
        sys.argv.insert(1, flag)
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra hands us its errors instead of printing them
    try:
        compose_and_run()
    except UserError as error:
        report(error)
        raise SystemExit(1) from None
    except KeyboardInterrupt as stop:
        why, words = getattr(stop, "reason", "interrupted"), shlex.join(["fedpan-exp", *sys.argv[1:]])
        report(UserError(f"{why}; the same command goes on from there: {words}"))
        raise SystemExit(getattr(stop, "exit_code", 130)) from None


def compose_and_run() -> None:
    import hydra  # here, and not above, so that Ctrl-C while torch is loaded ends in one line, too

    from fedpan_exp import config
    from fedpan_exp.console import console, errors
    from fedpan_exp.refusals import HYDRA_ERRORS, NOTHING_CHOSEN, one_line

    config.register()
    if torchrun.is_launched():
        torchrun.connect()
        console.quiet = errors.quiet = torchrun.rank() > 0
    try:
        if not _look_ahead(sys.argv[1:]):
            return
        hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(run)()
    except (*HYDRA_ERRORS, ValueError) as error:
        if not isinstance(error, HYDRA_ERRORS) and not str(error).startswith(NOTHING_CHOSEN):
            raise
        raise UserError(one_line(error, sys.argv[1:])) from None


def _look_ahead(words: list[str]) -> bool:
    """Check all jobs of a sweep before the first starts, and show the plan if asked; whether to go on."""
    flags = {word for word in words if word.startswith("-")}
    planned = any(word.lower() in ("plan=true", "plan=yes", "plan=on", "plan=1") for word in words)
    is_sweep = flags or planned or any(word.startswith(("sweeps=", "hydra.mode=")) for word in words)
    if not is_sweep or flags - {"-m", "--multirun"}:  # Hydra's other flags only ask for words
        return True
    if torchrun.is_launched():
        raise UserError("torchrun must be given one run: for sweeps and plans leave it out, or start one for each job")
    from hydra.core.global_hydra import GlobalHydra

    from fedpan_exp.sweep import Course, Refused, read_jobs

    try:
        jobs = read_jobs(words)
    except Refused as refused:
        for mistake in refused.mistakes[:-1]:
            report(UserError(mistake))
        raise
    finally:
        GlobalHydra.instance().clear()
    if planned and jobs is None:
        raise UserError("plan must be false with a sweeper that chooses as it goes, got true")
    global course
    course = Course(jobs) if jobs else None
    if planned and jobs is not None:
        from fedpan_exp.plan import show

        show(jobs)
    return not planned


def run(cfg: "DictConfig") -> float | None:
    """One experiment, as Hydra's job: returns its last-five accuracy, for sweepers that search."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    from fedpan_exp import config
    from fedpan_exp.report.pictures import draw
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
        return perform_in_sweep(experiment, record, hydra.job.num)
    except UserError as error:
        report(error)
        if hydra.mode == RunMode.RUN:
            raise SystemExit(1) from None  # not an Exception: Hydra adds nothing to it
        raise  # a sweep goes on, and ends with an error


def perform(experiment: "Experiment", record: "Record") -> float | None:
    from fedpan_exp.outcome import announce, conclude
    from fedpan_exp.stopping import polite_stop
    from fedpan_exp.tracking.record import FINISHED

    announce(record)
    if record.status in FINISHED and not experiment.rerun:
        return conclude(record, earlier=True)
    with polite_stop() as stop:
        try:
            with record:
                experiment.study.run(experiment, record, stop)
        except Diverged:
            conclude(record)  # what came out until then
            raise
        last5 = conclude(record)
        stop.end_if_asked()  # the run was about to end anyway; a sweep goes no further
        return last5


def assist(experiment: "Experiment", settings: dict[str, Any]) -> None:
    """As one of torchrun's processes that help the first: the same work, but what it would record is thrown away."""
    from fedpan_exp.stopping import polite_stop
    from fedpan_exp.tracking.logger import LoggerSettings
    from fedpan_exp.tracking.record import Record

    with TemporaryDirectory() as folder, polite_stop() as stop:
        record = Record({**settings, "runs": folder}, LoggerSettings(), experiment.study.irrelevant)
        experiment.study.run(experiment, record, stop)


def perform_in_sweep(experiment: "Experiment", record: "Record", number: int) -> float | None:
    """Once, however many jobs are the same experiment; what others work on is left to them."""
    from fedpan_exp.outcome import remark
    from fedpan_exp.tracking.lock import Held
    from fedpan_exp.tracking.record import FINISHED

    is_new = course.enter(number, record.name) if course else True
    if record.status in FINISHED and not (experiment.rerun and is_new):
        return remark(record)
    try:
        last5 = perform(experiment, record)
    except Held as held:
        report(UserError(f"passed over: {held}"))
        return None
    if course:
        course.worked()
    return last5


def report(error: UserError) -> None:
    """Say it once, however many hands the error passes through."""
    from fedpan_exp.console import errors

    if not getattr(error, "reported", False):
        errors.print(f"fedpan_exp: {error}", markup=False)
        error.reported = True  # type: ignore[attr-defined]
