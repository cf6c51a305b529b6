"""A sweep: its jobs, each composed and checked before the first starts, and how far it has come."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from fedpan_exp import config
from fedpan_exp.checks import ConfigError, UserError
from fedpan_exp.console import clock, console
from fedpan_exp.experiment import Experiment
from fedpan_exp.folders import CONF
from fedpan_exp.refusals import HYDRA_ERRORS, one_line
from fedpan_exp.tracking.record import Record

GRID = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"  # Hydra's own; others choose as they go


@dataclass(frozen=True)
class Job:
    overrides: list[str]
    experiment: Experiment
    record: Record  # not begun: for its name, its folder and what is there


def read_jobs(words: Sequence[str]) -> list[Job] | None:
    """The jobs of this command line; None where only the sweeper knows them. All that is wrong is said at once."""
    overrides = [word for word in words if not word.startswith("-")]
    parser = OverridesParser.create()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        plain = [
            override.input_line for override in parser.parse_overrides(overrides) if not override.is_sweep_override()
        ]
        hydra = compose("config", [word for word in plain if word], return_hydra_config=True).hydra
        if hydra.sweeper._target_ != GRID:
            return None
        is_sweep = {"-m", "--multirun"} & set(words) or str(hydra.mode).endswith("MULTIRUN")
        swept = [f"{name}={values}" for name, values in (hydra.sweeper.params or {}).items()] if is_sweep else []
        batches = BasicSweeper.split_arguments(parser.parse_overrides([*swept, *overrides]), None)
    jobs: list[Job] = []
    mistakes: dict[str, None] = {}  # each once, in order
    for job in (list(job) for batch in batches for job in batch):
        try:
            jobs.append(_job(job))
        except UserError as error:
            mistakes[str(error)] = None
        except HYDRA_ERRORS as error:
            mistakes[one_line(error, job)] = None
    if mistakes:
        raise Refused(list(mistakes), len(jobs))
    return jobs


class Refused(ConfigError):
    """A line for each kind of mistake; nothing was started."""

    def __init__(self, mistakes: list[str], sound: int):
        self.mistakes = mistakes
        others = f"; nothing was started, though {sound} other jobs are sound" if sound else ""
        super().__init__(mistakes[-1] + others)


def distinct(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    """Jobs by run: those that are the same experiment share one."""
    runs: dict[str, list[Job]] = {}
    for job in jobs:
        runs.setdefault(job.record.name, []).append(job)
    return runs


class Course:
    """How far a sweep has come, in the process that runs its jobs one after another."""

    def __init__(self, jobs: Sequence[Job]):
        self._runs = [job.record.name for job in jobs]
        self._began = time.monotonic()
        self._seen: set[str] = set()
        self._worked = 0

    def enter(self, number: int, name: str) -> bool:
        """A line on where the sweep is; whether this run comes up for the first time."""
        left = len({*self._runs} - self._seen)
        spent = time.monotonic() - self._began
        time_left = f", {clock(spent / self._worked * left)} left" if self._worked else ""
        console.print(f"\nsweep  job {number + 1}/{len(self._runs)}, {left} runs to go{time_left}", markup=False)
        is_new = name not in self._seen
        self._seen.add(name)
        return is_new

    def worked(self) -> None:
        """A run was not only looked at."""
        self._worked += 1


def _job(overrides: list[str]) -> Job:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("config", overrides)
    experiment = config.read(cfg)
    settings: Any = OmegaConf.to_container(cfg, resolve=True)
    irrelevant, pans_off = experiment.study.irrelevant, experiment.pans_off
    return Job(overrides, experiment, Record(settings, experiment.logger, irrelevant, pans_off=pans_off))
