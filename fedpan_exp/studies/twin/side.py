"""The two federations of a twin study: they take turns, and resume from the last round that both have saved."""

from collections.abc import Iterator
from dataclasses import dataclass

from fedpan_exp.config import Experiment
from fedpan_exp.federation import (
    Checkpoint,
    Checkpoints,
    ClientStates,
    FederatedTask,
    Round,
    SerialExecutor,
    federate,
)
from fedpan_exp.system.console import warn
from fedpan_exp.system.errors import first_line
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import CHECKPOINT, Record


@dataclass
class Side:
    """A federation with checkpoints of its own."""

    task: FederatedTask
    checkpoints: Checkpoints
    states: ClientStates
    resume: Checkpoint | None = None

    def rounds(self, stop: StopRequest) -> Iterator[Round]:
        return federate(self.task, SerialExecutor(self.task, self.states, stop), self.resume)

    def save(self, round_: Round, records: int) -> None:
        self.checkpoints.save(round_.index, round_.server, self.states, records)


def make_side(name: str, task: FederatedTask, experiment: Experiment, record: Record) -> Side:
    checkpoints = Checkpoints(record.folder / CHECKPOINT / name, record.name, experiment.checkpoint)
    if experiment.rerun:
        checkpoints.clear()
    on_disk = experiment.fl_scene.client_memory == "disk"
    return Side(task, checkpoints, ClientStates(checkpoints.states_folder, on_disk))


def restore_both(first: Side, second: Side, records: int) -> None:
    """Let both resume after the last round that `first` has saved; `second` saves a round before `first` does."""
    device = first.task.trainer.fabric.device
    resume = first.checkpoints.restore_latest(first.states, records, device)
    if not resume:
        return
    try:
        second.resume = second.checkpoints.load(resume.round_idx, device)
    except (OSError, ValueError, KeyError) as error:
        warn(f"the twin's checkpoint of round {resume.round_idx} is not intact ({first_line(error)}); starting over")
        first.states.restore({})
        return
    second.states.restore(second.resume.clients)
    first.resume = resume
