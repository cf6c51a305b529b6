"""The jobs of a sweep, all composed and checked before the first one starts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from fedpan_exp import config
from fedpan_exp.config import AUTO, Experiment
from fedpan_exp.config.choices import Choice, find_choices
from fedpan_exp.config.hydra_errors import as_user_errors
from fedpan_exp.federation import torchrun
from fedpan_exp.sweeping.grids import Grids, as_settings, product, short_name
from fedpan_exp.system.console import progress_bar
from fedpan_exp.system.errors import ConfigError, UserError
from fedpan_exp.system.paths import CONF
from fedpan_exp.tracking.record import Record
from fedpan_exp.tracking.runs import FINISHED, RunEntry

MIN_JOBS_FOR_BAR = 50


@dataclass(frozen=True, eq=False)
class Job:
    overrides: list[str]
    experiment: Experiment
    record: Record  # not started: for the name, the folder and the status of the run
    choices: tuple[Choice, ...] = ()  # settings that nobody typed

    @property
    def name(self) -> str:
        """The name of its run."""
        return self.record.name

    @property
    def is_finished(self) -> bool:
        return self.record.status in FINISHED

    @property
    def run(self) -> RunEntry:
        """The run folder as it is now."""
        return RunEntry(self.record.folder)

    @property
    def rounds_left(self) -> int:
        """Federated rounds that the job would run."""
        fork = self.experiment.forked()
        done = 0 if self.experiment.rerun else self.run.rounds
        return self.experiment.fl_scene.H - max(done, fork.round_idx if fork else 0)

    @property
    def accuracy(self) -> str:
        """The mean of the last five tests, if the run has got so far."""
        accuracy = self.run.summary.get("summary/last5_acc")
        return "" if accuracy is None else f"{accuracy:.2%}"

    def label(self, names: Iterable[str]) -> str:
        """The job's values of these settings, such as: alpha=0.1  pan=mul"""
        settings = as_settings(self.overrides)
        return "  ".join(f"{short_name(name)}={settings[name]}" for name in names if name in settings)


def distinct(jobs: Iterable[Job]) -> list[Job]:
    """Return one job per run, the first; jobs with the same experiment share a run."""
    runs: dict[str, Job] = {}
    for job in jobs:
        runs.setdefault(job.name, job)
    return list(runs.values())


class InvalidJobs(ConfigError):
    """Jobs with invalid settings, one line per distinct error. No job was started."""

    def __init__(self, messages: Sequence[str], valid: int):
        are_valid = "job is valid" if valid == 1 else "jobs are valid"
        rest = f"; nothing was started, though {valid} other {are_valid}" if valid else ""
        super().__init__("\n".join(messages) + rest)


def reject_torchrun() -> None:
    """Raise UserError in a process of torchrun: its processes train the clients of one run."""
    if torchrun.is_launched():
        raise UserError(
            "torchrun must start a single run; start sweeps and plans without it, or use one torchrun per job"
        )


def compose_jobs(grids: Grids, master: DictConfig, loader: ConfigLoader, seed: int | None = None) -> list[Job]:
    """Compose and check the jobs of a sweep; raise all errors at once. `master` is Hydra's config of the sweep.

    `seed` replaces seed=auto.
    """
    typed = OmegaConf.to_container(master.hydra.overrides.task)
    assert isinstance(typed, list)
    if seed is not None:
        typed = [*(override for override in typed if override != f"seed={AUTO}"), f"seed={seed}"]
    parser = OverridesParser.create(loader)  # knows the options of the config groups, for glob(*)
    on_command_line = {override.key_or_group: override for override in parser.parse_overrides(typed)}
    sweep, scale = (master.hydra.runtime.choices.get(group) for group in ("sweeps", "scale"))
    for group in ("sweeps", "scale"):
        override = on_command_line.get(group)
        if override and override.is_sweep_override() and (sweep or group == "sweeps"):  # grids would be left out
            values = str(override.input_line).partition("=")[2]
            raise ConfigError(f"{group} must be a single option with sweeps=..., got {values}")
    grids.check(f"sweeps/{sweep}.yaml" if sweep else "hydra.sweeper")
    values_typed = {  # a list of values stays text: it has no dataset or network of its own to stand in for
        key: str(override.input_line).partition("=")[2] if override.is_sweep_override() else override.value()
        for key, override in on_command_line.items()
    }
    lines = [
        _without_idle_amplitude(overrides)
        for grid in grids.expand(scale, values_typed)
        for overrides in product(parser.parse_overrides([*grid, *typed]))
    ]
    jobs: list[Job] = []
    messages: dict[str, None] = {}  # an ordered set
    for overrides in _with_progress(lines):
        try:
            with as_user_errors(overrides):
                jobs.append(_compose_job(overrides, typed, master, loader))
        except UserError as error:
            messages[str(error)] = None
    if messages:
        raise InvalidJobs(list(messages), len(jobs))
    return jobs


def _without_idle_amplitude(overrides: list[str]) -> list[str]:
    """pan=off,mul pan.A=0.05: the baseline has no amplitude, and shares a run whatever is typed."""
    if "pan=off" not in overrides:
        return overrides
    return [override for override in overrides if not override.startswith("pan.A=")]


def read_jobs(*args: str) -> list[Job]:
    """Compose the jobs of a command, as its sweep does."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        master = loader.load_configuration("config", list(args), run_mode=RunMode.MULTIRUN)
        sweeper: Any = OmegaConf.to_container(master.hydra.sweeper)
        return compose_jobs(Grids.read(sweeper["file"], sweeper["params"]), master, loader)


def _compose_job(overrides: list[str], typed: list[str], master: DictConfig, loader: ConfigLoader) -> Job:
    cfg = loader.load_sweep_config(master, overrides)
    hydra = cfg.hydra
    with open_dict(cfg):
        del cfg["hydra"]
    experiment = config.read(cfg)
    settings = config.settings_of(cfg, experiment)
    record = Record(settings, config.identify(experiment, settings), experiment.logger)
    return Job(overrides, experiment, record, tuple(find_choices(cfg, hydra, typed)))


def _with_progress(jobs: list[list[str]]) -> Iterator[list[str]]:
    if len(jobs) < MIN_JOBS_FOR_BAR:
        yield from jobs
        return
    with progress_bar("check", len(jobs), log_lines=1) as progress:
        for overrides in progress.track(jobs):
            progress.describe(f"{len(jobs)} jobs")
            yield overrides
