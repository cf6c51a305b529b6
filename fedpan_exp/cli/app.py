"""The command line: compose with Hydra, check, run the study, print the results. An error is one line."""

import os
import shlex
import signal
import sys
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fedpan_exp import __version__
from fedpan_exp.cli.options import MULTIRUN, OTHER_CONFIGS, split
from fedpan_exp.system.errors import Diverged, UserError
from fedpan_exp.system.paths import CONF
from fedpan_exp.system.signals import describe_interruption, nothing_begun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from omegaconf import DictConfig

    from fedpan_exp.cli.baseline import Baseline
    from fedpan_exp.config import Experiment
    from fedpan_exp.config.choices import Choice
    from fedpan_exp.tracking.record import Record


def main() -> None:
    _, *args = sys.argv
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # makes Hydra raise its errors instead of printing them
    try:
        if args[:1] == ["new"]:
            from fedpan_exp.cli.new import write_plugin

            write_plugin(args[1:])
            return
        options, settings = split(args)
        if {"--help", "-h"} & options:
            show_help(args)
        elif "--version" in options:
            print(f"fedpan_exp {__version__}")
        else:
            with nothing_begun():
                check_spelling(options, settings)
                register(args)
            compose_and_run(args)
    except UserError as error:
        report(error)
        raise SystemExit(1) from None
    except BrokenPipeError:  # --help | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + signal.SIGPIPE) from None
    except KeyboardInterrupt as interruption:
        reason, command = describe_interruption(interruption), shlex.join(["python", "-m", "fedpan_exp", *args])
        report(UserError(f"{reason}; run the same command to resume: {command}"))
        raise SystemExit(getattr(interruption, "exit_code", 130)) from None


def show_help(args: list[str]) -> None:
    """Print --help; without plugins neither they nor torch are imported, so that it is fast."""
    from fedpan_exp.cli.help import help_text

    added = []
    if any(arg.startswith("plugins=") for arg in args) or has_installed_plugins():
        from fedpan_exp import plugins

        plugins.activate(plugins.in_overrides(args))
        added = list(plugins.described())
    print(help_text(added))


def check_spelling(options: set[str], settings: list[str]) -> None:
    """Reject misspelt names before torch is imported, unless plugins or other configs may have added names."""
    if not settings or "torch" in sys.modules:  # nothing to find, or nothing to gain: composing finds them too
        return
    names_plugins = any(setting.lstrip("+").startswith("plugins=") for setting in settings)
    if names_plugins or has_installed_plugins() or OTHER_CONFIGS & options or "TORCHELASTIC_RUN_ID" in os.environ:
        return
    from fedpan_exp.config.spelling import check_names

    is_sweep = bool(MULTIRUN & options) or any(setting.startswith(("sweeps=", "hydra.mode=")) for setting in settings)
    check_names(settings, is_sweep)


def has_installed_plugins() -> bool:
    from importlib.metadata import entry_points

    return bool(entry_points(group="fedpan_exp.plugins"))


def register(args: list[str]) -> None:
    """Import torch and everything that a config may name, and register it with Hydra."""
    from fedpan_exp import config
    from fedpan_exp.studies import load_studies

    config.register(load_studies(), args)


def compose_and_run(args: list[str]) -> None:
    import hydra

    from fedpan_exp.config.hydra_errors import as_user_errors
    from fedpan_exp.federation import torchrun
    from fedpan_exp.system.console import bar_console, console, error_console

    if torchrun.is_launched():
        torchrun.join()
        console.quiet = bar_console.quiet = error_console.quiet = torchrun.rank() > 0

    def task(cfg: "DictConfig") -> float | None:
        return run(cfg, args)

    with torchrun.rank_zero_reports(), as_user_errors(args):
        hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(task)()


def run(cfg: "DictConfig", args: list[str]) -> float | None:
    """Run one experiment as Hydra's task; return its last-five accuracy, for sweepers that search."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    hydra = HydraConfig.get()
    if hydra.mode == RunMode.RUN:
        try:
            return run_experiment(cfg, args)
        except UserError as error:
            report(error)
            raise SystemExit(1) from None  # not an Exception, so Hydra prints nothing
    if hydra.runtime.choices["hydra/sweeper"] == "fedpan":
        return run_experiment(cfg, args)
    return run_trial(cfg, args)


def run_trial(cfg: "DictConfig", args: list[str]) -> float | None:
    """Run a job of a sweeper that searches: it does not know about locks, and needs the error printed."""
    from fedpan_exp.sweeping.jobs import reject_torchrun
    from fedpan_exp.tracking.lock import RunLocked

    try:
        reject_torchrun()
        if cfg.plan:
            raise UserError("plan must be false with a sweeper that chooses its jobs one by one, got true")
    except UserError as error:
        report(error)
        raise SystemExit(1) from None  # ends the search
    try:
        return run_experiment(cfg, args)
    except RunLocked as locked:
        report(UserError(f"skipped: {locked}"))
        return None
    except UserError as error:
        report(error)
        raise  # the search continues


def run_experiment(cfg: "DictConfig", args: list[str]) -> float | None:
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from fedpan_exp import config
    from fedpan_exp.cli.baseline import find_baseline
    from fedpan_exp.config.choices import find_changes, find_choices
    from fedpan_exp.federation import torchrun
    from fedpan_exp.system.signals import Interrupted
    from fedpan_exp.tracking.record import Record

    hydra = HydraConfig.get()
    experiment = config.read(cfg)
    settings = config.settings_of(cfg, experiment)
    identity = config.identify(experiment, settings)
    record = Record(settings, identity, experiment.logger, hydra.overrides.task, draw)
    if experiment.plan:
        from fedpan_exp.sweeping import plan
        from fedpan_exp.sweeping.jobs import Job, reject_torchrun

        reject_torchrun()
        plan.show([Job(list(hydra.overrides.task), experiment, record)])
        return None
    if torchrun.rank():
        run_worker(experiment, settings)
        return None
    try:
        choices, overrides = find_choices(cfg, hydra, args), hydra.overrides.task
        if hydra.mode == RunMode.RUN:
            baseline = find_baseline(experiment, identity.pans_off, overrides)
            return run_study(experiment, record, find_changes(cfg, overrides), choices, baseline)
        return run_study(experiment, record, overrides, choices)
    except Interrupted as interruption:
        if interruption.ends_sweep or hydra.mode == RunMode.RUN:
            raise
        raise UserError(f"{describe_interruption(interruption)}; run the same command to resume it") from None


def draw(folder: "Path") -> None:
    from fedpan_exp.report.collect import draw_run  # late: drawing takes a second to import

    draw_run(folder)


def run_study(
    experiment: "Experiment",
    record: "Record",
    changed: "Sequence[str]",
    choices: "Sequence[Choice]",
    baseline: "Baseline | None" = None,
) -> float | None:
    """Run a study between the output of its settings and of its results; a finished run is only shown."""
    from fedpan_exp.cli.run_output import print_results, print_settings
    from fedpan_exp.system.console import lines_after_start, show_lines
    from fedpan_exp.system.signals import graceful_shutdown
    from fedpan_exp.tracking.runs import FINISHED

    with lines_after_start():
        print_settings(record, changed, choices, experiment.verbose)
        if record.status in FINISHED and not experiment.rerun:
            show_lines()
            return print_results(record, baseline, earlier=True)
        with graceful_shutdown() as stop:
            try:
                with record:
                    experiment.study.run(experiment, record, stop)
            except Diverged:
                print_results(record)  # the results so far
                raise
            last5 = print_results(record, baseline)
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


def report(error: UserError) -> None:
    """Print an error once, even if it is caught and raised again."""
    from fedpan_exp.system.console import error_console

    if not getattr(error, "reported", False):
        for line in str(error).splitlines():  # a sweep has one per invalid setting
            error_console.print(f"fedpan_exp: {line}", markup=False)
        error.reported = True  # type: ignore[attr-defined]
