"""The Python API: what the command line does, as functions. Settings are the same strings as there.

Every mistake in a setting raises fedpan_exp.UserError with one readable line.
"""

import atexit
import weakref
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.torch import load_file
from torch import Tensor

from fedpan_exp import config
from fedpan_exp.config import Experiment
from fedpan_exp.config.hydra_errors import as_user_errors
from fedpan_exp.federation import ClientStates, Round, count_ranks, make_executor
from fedpan_exp.federation import federate as run_rounds
from fedpan_exp.report.collect import draw_run
from fedpan_exp.report.frame import load as load_runs
from fedpan_exp.report.frame import records
from fedpan_exp.studies import load_studies
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.atomic_io import read_json
from fedpan_exp.system.console import quietly
from fedpan_exp.system.errors import Diverged, UserError
from fedpan_exp.system.signals import describe_interruption, graceful_shutdown
from fedpan_exp.tracking.record import Record
from fedpan_exp.tracking.runs import FINISHED

__all__ = ["Result", "experiment", "federate", "load_runs", "run"]


@dataclass(frozen=True)
class Result:
    """A finished run."""

    folder: Path

    @property
    def status(self) -> str:
        """done or diverged."""
        return str(read_json(self.folder / "status.json")["status"])

    @cached_property
    def summary(self) -> dict[str, Any]:
        return read_json(self.folder / "summary.json")

    @cached_property
    def records(self) -> pd.DataFrame:
        """What was measured, one row per round."""
        return records(self.folder)

    @property
    def accuracy(self) -> float | None:
        """The mean test accuracy of the last five rounds."""
        return self.summary.get("summary/last5_acc")

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """The final weights, as a state dict."""
        return load_file(self.folder / "weights.safetensors")


def experiment(*settings: str) -> Experiment:
    """Compose and check an experiment, as typed values: `experiment("pan=mul").fl_scene.alpha`."""
    with _composing(settings):
        return config.experiment(*settings)


def federate(*settings: str, verbose: bool = False) -> Generator[Round]:
    """Train round by round, and yield each round: `round.test().accuracy`, `round.server.weights`, `round.metrics()`.

    Nothing is written to disk. The server is live: test or copy what you need before the next round. A loop that ends
    early, by `break` or an exception, ends the worker processes too.
    """
    return _closed_at_exit(_rounds(experiment(*settings), verbose))  # the call finds a mistake, not the first round


def _closed_at_exit(rounds: Generator[Round]) -> Generator[Round]:
    """If a program ends in the middle, end the workers before Python takes the modules apart that they need."""
    reference = weakref.ref(rounds)

    def close() -> None:
        if unfinished := reference():
            unfinished.close()

    atexit.register(close)
    return rounds


def _rounds(chosen: Experiment, verbose: bool) -> Generator[Round]:
    with nullcontext() if verbose else quietly():
        task = make_task(chosen, set_up(chosen))
    ranks = count_ranks(chosen.ranks, task.cohort_size, task.trainer.fabric.device)
    states, fork = ClientStates(), chosen.forked()
    executor = make_executor(task, ranks, states, timeout=chosen.fabric.timeout)
    yield from run_rounds(task, executor, fork.start(task, states) if fork else None)


def run(*settings: str, verbose: bool = False) -> Result:
    """Run an experiment as the command line does: in a run folder, resumed if it was interrupted, returned if finished.

    `fedpan_exp.run("algorithm=scaffold", "pan=mul", "runs=my_runs").records`
    """
    with _composing(settings):
        cfg = config.compose_config(*settings)
        chosen = config.read(cfg)
    values = config.settings_of(cfg, chosen)
    record = Record(values, config.identify(chosen, values), chosen.logger, settings, draw_run)
    if record.status not in FINISHED or chosen.rerun:
        with nullcontext() if verbose else quietly(), graceful_shutdown() as stop:
            try:
                with record:
                    chosen.study.run(chosen, record, stop)
            except Diverged:
                pass  # a result like others: Result.status says so
            except KeyboardInterrupt as interruption:
                interruption.add_note(f"{describe_interruption(interruption)}; make the same call to resume")
                raise
    return Result(record.folder)


@contextmanager
def _composing(settings: Sequence[str]) -> Iterator[None]:
    for setting in settings:
        if not isinstance(setting, str):
            raise UserError(f"""settings must be strings, as in "pan=off", "pan.A=0.1", got {setting!r:.80}""")
        if setting.startswith("sweeps=") or setting.lower() == "plan=true":
            raise UserError(f"a sweep or a plan needs the command line, got {setting}: python -m fedpan_exp {setting}")
    with config.registered(_studies(), settings), as_user_errors(settings):
        yield


_studies = cache(load_studies)
