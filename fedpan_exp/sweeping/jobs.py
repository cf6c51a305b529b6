"""The jobs of a command, all composed and checked before the first one starts."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from fedpan_exp import config
from fedpan_exp.config import Experiment
from fedpan_exp.config.hydra_errors import HYDRA_ERRORS, one_line
from fedpan_exp.system.console import progress_bar
from fedpan_exp.system.errors import ConfigError, UserError
from fedpan_exp.system.paths import CONF
from fedpan_exp.tracking.record import Record

GRID_SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"  # others choose jobs one by one
LOCAL_LAUNCHER = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"  # others run jobs in other processes
MIN_JOBS_FOR_BAR = 50


@dataclass(frozen=True)
class Job:
    overrides: list[str]
    experiment: Experiment
    record: Record  # not started: for the name, the folder and the status of the run


@dataclass(frozen=True)
class Jobs:
    jobs: list[Job]
    is_local: bool  # whether this process runs them, one after another

    def distinct(self) -> list[Job]:
        """Return one job per run; jobs with the same experiment share a run."""
        return list({job.record.name: job for job in reversed(self.jobs)}.values())[::-1]


@contextmanager
def skip_hydra_check() -> Iterator[None]:
    """Keep Hydra from composing every job again to check it: `read_jobs` has done so."""
    check = BasicSweeper.validate_batch_is_legal
    BasicSweeper.validate_batch_is_legal = lambda self, batch: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        BasicSweeper.validate_batch_is_legal = check  # type: ignore[method-assign]


def read_jobs(commands: Sequence[Sequence[str]]) -> Jobs | None:
    """Compose the jobs of these command lines; None if only the sweeper knows them. Raises all errors at once."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        hydra = _hydra(commands[0])
        if hydra.sweeper._target_ != GRID_SWEEPER:
            return None
        all_overrides = [overrides for command in commands for overrides in _split(command, hydra)]
        jobs: list[Job] = []
        messages: dict[str, None] = {}  # an ordered set
        for overrides in _with_progress(all_overrides):
            try:
                jobs.append(_job(overrides))
            except UserError as error:
                messages[str(error)] = None
            except HYDRA_ERRORS as error:
                messages[one_line(error, overrides)] = None
    if messages:
        raise InvalidJobs(list(messages), len(jobs))
    return Jobs(jobs, hydra.launcher._target_ == LOCAL_LAUNCHER)


class InvalidJobs(ConfigError):
    """Jobs with invalid settings, one message per distinct error. No job was started."""

    def __init__(self, messages: list[str], valid: int):
        self.messages = messages
        are_valid = "job is valid" if valid == 1 else "jobs are valid"
        super().__init__(messages[-1] + (f"; nothing was started, though {valid} other {are_valid}" if valid else ""))


def _hydra(command: Iterable[str]) -> Any:
    """Compose Hydra's own settings, which do not depend on the swept overrides."""
    overrides = _parser().parse_overrides(_settings(command))
    plain = [override.input_line for override in overrides if not override.is_sweep_override()]
    return compose("config", [line for line in plain if line], return_hydra_config=True).hydra


def _split(command: Sequence[str], hydra: Any) -> list[list[str]]:
    """Split a command into the overrides of its jobs, as Hydra does."""
    is_sweep = {"-m", "--multirun"} & set(command) or str(hydra.mode).endswith("MULTIRUN")
    params = [f"{name}={values}" for name, values in (hydra.sweeper.params or {}).items()] if is_sweep else []
    overrides = _parser().parse_overrides([*params, *_settings(command)])
    for override in overrides:
        if override.is_discrete_sweep() and not [*override.sweep_string_iterator()]:
            raise ConfigError(f"{override.get_key_element()} must have values, got none in {override.input_line}")
    batches = BasicSweeper.split_arguments(overrides, None)
    return [list(job) for batch in batches for job in batch]


def _parser() -> OverridesParser:
    """Create a parser that knows the options of the config groups, for glob(*)."""
    return OverridesParser.create(GlobalHydra.instance().config_loader())


def _settings(command: Iterable[str]) -> list[str]:
    return [arg for arg in command if not arg.startswith("-")]


def _with_progress(jobs: list[list[str]]) -> Iterator[list[str]]:
    if len(jobs) < MIN_JOBS_FOR_BAR:
        yield from jobs
        return
    with progress_bar("check", len(jobs), log_lines=1) as progress:
        for overrides in progress.track(jobs):
            progress.describe(f"{len(jobs)} jobs")
            yield overrides


def _job(overrides: list[str]) -> Job:
    cfg = compose("config", overrides)
    experiment = config.read(cfg)
    settings: Any = OmegaConf.to_container(cfg, resolve=True)
    record = Record(settings, config.identify(experiment, settings), experiment.logger)
    return Job(overrides, experiment, record)
