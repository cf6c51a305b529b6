"""The command line: compose with Hydra, check, run the study, print the results. An error is one line."""

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
    from fedpan_exp.config.choices import Choice
    from fedpan_exp.sweeping.progress import SweepProgress
    from fedpan_exp.tracking.record import Record

sweep_progress: "SweepProgress | None" = None  # set while this process runs the jobs of a sweep
PLAN_OVERRIDES = ("plan=true", "plan=yes", "plan=on", "plan=1")


def main() -> None:
    args = sys.argv[1:]
    if {"--help", "-h"} & set(args):
        from fedpan_exp.cli.help import help_text  # before torch is imported, so that --help is fast

        print(help_text())
        return
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # makes Hydra raise its errors instead of printing them
    try:
        compose_and_run(args)
    except UserError as error:
        report(error)
        raise SystemExit(1) from None
    except KeyboardInterrupt as interruption:
        reason, command = describe(interruption), shlex.join(["python", "-m", "fedpan_exp", *args])
        report(UserError(f"{reason}; run the same command to resume: {command}"))
        raise SystemExit(getattr(interruption, "exit_code", 130)) from None


def compose_and_run(args: list[str]) -> None:
    from fedpan_exp import config  # imported late so that Ctrl-C while torch is imported also ends in one line
    from fedpan_exp.config.hydra_errors import HYDRA_ERRORS, NOTHING_CHOSEN, one_line
    from fedpan_exp.federation import torchrun
    from fedpan_exp.studies import load_studies
    from fedpan_exp.sweeping.grids import expand
    from fedpan_exp.system.console import console, error_console

    config.register(load_studies())
    if torchrun.is_launched():
        torchrun.connect()
        console.quiet = error_console.quiet = torchrun.rank() > 0
    try:
        if {arg for arg in args if arg.startswith("-")} - {"-m", "--multirun"}:
            launch([args], args)  # Hydra's other flags only print information
        elif any(arg.startswith(("-", "sweeps=", "hydra.mode=")) or arg.lower() in PLAN_OVERRIDES for arg in args):
            sweep(args, expand(args))
        else:
            launch([args], args)
    except (*HYDRA_ERRORS, ValueError) as error:
        if not isinstance(error, HYDRA_ERRORS) and not str(error).startswith(NOTHING_CHOSEN):
            raise
        raise UserError(one_line(error, args)) from None


def sweep(args: list[str], commands: list[list[str]]) -> None:
    """Check all jobs before the first one starts; then show the plan, or run them."""
    from fedpan_exp.federation import torchrun

    if torchrun.is_launched():
        raise UserError(
            "torchrun must start a single run; start sweeps and plans without it, or use one torchrun per job"
        )
    from fedpan_exp.sweeping import manifest, plan, summary
    from fedpan_exp.sweeping.jobs import InvalidJobs, read_jobs, skip_hydra_check
    from fedpan_exp.sweeping.progress import SweepProgress, show_finished_runs

    try:
        jobs = read_jobs(commands)
    except InvalidJobs as invalid:
        for message in invalid.messages[:-1]:
            report(UserError(message))
        raise
    if any(arg.lower() in PLAN_OVERRIDES for arg in args):
        if jobs is None:
            raise UserError("plan must be false with a sweeper that chooses its jobs one by one, got true")
        plan.show(jobs)
        return
    if jobs:
        manifest.write(jobs.jobs, args)
    global sweep_progress
    sweep_progress = SweepProgress(jobs.jobs) if jobs and jobs.is_local else None
    try:
        with skip_hydra_check(), show_finished_runs(jobs.jobs) if jobs and not jobs.is_local else nullcontext():
            launch(commands, args)
    finally:
        summary.print_summary(jobs, args) if jobs else summary.print_search_result(args)


def launch(commands: list[list[str]], args: list[str]) -> None:
    """Run each command with Hydra; `args` is what the user typed.

    A command that fails does not stop the others; its error is raised at the end.
    """
    import hydra

    def job(cfg: "DictConfig") -> float | None:
        return run(cfg, args)

    failure: Exception | None = None
    for command in commands:
        flags = [arg for arg in command if arg in ("-m", "--multirun")]  # Hydra accepts them only at the start
        sys.argv[1:] = [*flags[:1], *(arg for arg in command if arg not in flags)]
        try:
            hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(job)()
        except Exception as error:
            failure = failure or error
    if failure:
        raise failure


def run(cfg: "DictConfig", args: list[str]) -> float | None:
    """Run one experiment as a Hydra job; return its last-five accuracy, for sweepers that search."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    from fedpan_exp import config
    from fedpan_exp.config.choices import find_choices
    from fedpan_exp.federation import torchrun
    from fedpan_exp.report.collect import draw_run
    from fedpan_exp.tracking.record import Record

    hydra = HydraConfig.get()
    try:
        experiment = config.read(cfg)
        settings: Any = OmegaConf.to_container(cfg, resolve=True)
        if experiment.plan:
            raise UserError("plan must be set on the command line, as plan=true")
        if torchrun.rank():
            run_worker(experiment, settings)
            return None
        identity = config.identify(experiment, settings)
        record = Record(settings, identity, experiment.logger, hydra.overrides.task, draw_run)
        choices = find_choices(cfg, hydra, args)
        if hydra.mode == RunMode.RUN:
            return run_study(experiment, record, choices)
        return run_sweep_job(experiment, record, choices)
    except UserError as error:
        report(error)
        if hydra.mode == RunMode.RUN:
            raise SystemExit(1) from None  # not an Exception, so Hydra prints nothing
        raise  # the sweep continues, and ends with an error


def run_study(experiment: "Experiment", record: "Record", choices: "list[Choice]") -> float | None:
    from fedpan_exp.cli.run_output import print_results, print_settings
    from fedpan_exp.system.signals import graceful_shutdown
    from fedpan_exp.tracking.record import FINISHED

    print_settings(record, choices)
    if record.status in FINISHED and not experiment.rerun:
        return print_results(record, earlier=True)
    with graceful_shutdown() as stop:
        try:
            with record:
                experiment.study.run(experiment, record, stop)
        except Diverged:
            print_results(record)  # the results so far
            raise
        last5 = print_results(record)
        stop.raise_if_requested()  # the run has ended anyway, but a sweep must not continue
        return last5


def run_worker(experiment: "Experiment", settings: dict[str, Any]) -> None:
    """Run as a torchrun process other than rank 0: the same work, but its records are discarded."""
    from fedpan_exp import config
    from fedpan_exp.system.signals import graceful_shutdown
    from fedpan_exp.tracking.logger import LoggerSettings
    from fedpan_exp.tracking.record import Record

    with TemporaryDirectory() as folder, graceful_shutdown() as stop:
        record = Record({**settings, "runs": folder}, config.identify(experiment, settings), LoggerSettings())
        experiment.study.run(experiment, record, stop)


def run_sweep_job(experiment: "Experiment", record: "Record", choices: "list[Choice]") -> float | None:
    """Run a job unless its experiment is finished already, or another process works on it."""
    from fedpan_exp.cli.run_output import print_finished
    from fedpan_exp.system.signals import Interrupted
    from fedpan_exp.tracking.lock import RunLocked
    from fedpan_exp.tracking.record import FINISHED

    is_new = sweep_progress.start_job(record.name) if sweep_progress else True
    if record.status in FINISHED and not (experiment.rerun and is_new):
        return print_finished(record)
    try:
        last5 = run_study(experiment, record, choices)
    except RunLocked as locked:
        report(UserError(f"skipped: {locked}"))
        return None
    except Interrupted as interruption:
        if interruption.ends_sweep:
            raise
        raise UserError(f"{record.name}: {describe(interruption)}; run the same command to resume it") from None
    if sweep_progress:
        sweep_progress.count_run()
    return last5


def describe(interruption: KeyboardInterrupt) -> str:
    """Say why a run has ended and, if known, after which round it will resume."""
    saved_round = getattr(interruption, "saved_round", None)
    after = f" after round {saved_round}" if saved_round else ""
    return f"{getattr(interruption, 'reason', 'interrupted')}{after}"


def report(error: UserError) -> None:
    """Print an error once, even if it is caught and raised again."""
    from fedpan_exp.system.console import error_console

    if not getattr(error, "reported", False):
        error_console.print(f"fedpan_exp: {error}", markup=False)
        error.reported = True  # type: ignore[attr-defined]
