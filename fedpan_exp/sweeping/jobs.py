"""The jobs of a command, each composed and checked before the first starts."""

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

GRID = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"  # Hydra's own; others choose as they go
IN_TURN = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"  # likewise; others run jobs elsewhere
WORTH_A_BAR = 50  # jobs


@dataclass(frozen=True)
class Job:
    overrides: list[str]
    experiment: Experiment
    record: Record  # not begun: for its name, its folder and what is there


@dataclass(frozen=True)
class Jobs:
    jobs: list[Job]
    in_turn: bool  # this process runs them, one after another

    def distinct(self) -> list[Job]:
        """One job a run: those that are the same experiment share it."""
        return list({job.record.name: job for job in reversed(self.jobs)}.values())[::-1]


@contextmanager
def checked_already() -> Iterator[None]:
    """Hydra would compose every job once more before the first starts, to check what `read_jobs` has checked."""
    check = BasicSweeper.validate_batch_is_legal
    BasicSweeper.validate_batch_is_legal = lambda self, batch: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        BasicSweeper.validate_batch_is_legal = check  # type: ignore[method-assign]


def read_jobs(commands: Sequence[Sequence[str]]) -> Jobs | None:
    """The jobs of these command lines; None where only the sweeper knows them. All that is wrong is said at once."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        hydra = _hydra(commands[0])
        if hydra.sweeper._target_ != GRID:
            return None
        overrides = [words for command in commands for words in _split(command, hydra)]
        jobs: list[Job] = []
        mistakes: dict[str, None] = {}  # each once, in order
        for words in _with_a_bar(overrides):
            try:
                jobs.append(_job(words))
            except UserError as error:
                mistakes[str(error)] = None
            except HYDRA_ERRORS as error:
                mistakes[one_line(error, words)] = None
    if mistakes:
        raise Refused(list(mistakes), len(jobs))
    return Jobs(jobs, hydra.launcher._target_ == IN_TURN)


class Refused(ConfigError):
    """A line for each kind of mistake; nothing was started."""

    def __init__(self, mistakes: list[str], sound: int):
        self.mistakes = mistakes
        others = f"; nothing was started, though {sound} other jobs are sound" if sound else ""
        super().__init__(mistakes[-1] + others)


def _hydra(command: Iterable[str]) -> Any:
    """Hydra's own settings, for which what is swept does not matter."""
    overrides = _parser().parse_overrides(_settings(command))
    plain = [override.input_line for override in overrides if not override.is_sweep_override()]
    return compose("config", [word for word in plain if word], return_hydra_config=True).hydra


def _split(command: Sequence[str], hydra: Any) -> list[list[str]]:
    """As Hydra will."""
    is_sweep = {"-m", "--multirun"} & set(command) or str(hydra.mode).endswith("MULTIRUN")
    params = [f"{name}={values}" for name, values in (hydra.sweeper.params or {}).items()] if is_sweep else []
    overrides = _parser().parse_overrides([*params, *_settings(command)])
    for override in overrides:
        if override.is_discrete_sweep() and not [*override.sweep_string_iterator()]:
            raise ConfigError(f"{override.get_key_element()} must have values, got none in {override.input_line}")
    batches = BasicSweeper.split_arguments(overrides, None)
    return [list(job) for batch in batches for job in batch]


def _parser() -> OverridesParser:
    """One that knows the options of the config groups, for glob(*)."""
    return OverridesParser.create(GlobalHydra.instance().config_loader())


def _settings(command: Iterable[str]) -> list[str]:
    return [word for word in command if not word.startswith("-")]


def _with_a_bar(overrides: list[list[str]]) -> Iterator[list[str]]:
    if len(overrides) < WORTH_A_BAR:
        yield from overrides
        return
    with progress_bar("check", len(overrides), log_lines=1) as progress:
        for words in progress.track(overrides):
            progress.describe(f"{len(overrides)} jobs")
            yield words


def _job(overrides: list[str]) -> Job:
    cfg = compose("config", overrides)
    experiment = config.read(cfg)
    settings: Any = OmegaConf.to_container(cfg, resolve=True)
    irrelevant, pans_off = experiment.study.irrelevant, experiment.pans_off
    return Job(overrides, experiment, Record(settings, experiment.logger, irrelevant, pans_off=pans_off))
