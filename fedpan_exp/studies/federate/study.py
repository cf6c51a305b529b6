"""Train a global model over clients, round by round: the main study."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedpan_exp.algorithms import ServerState
from fedpan_exp.config import Experiment
from fedpan_exp.federation import (
    KEPT,
    Checkpoint,
    Checkpoints,
    ClientStates,
    FederatedTask,
    Round,
    count_ranks,
    federate,
    make_executor,
    torchrun,
)
from fedpan_exp.probes import PROBES, Probe, make_probes, measure
from fedpan_exp.studies.shared.setup import FederatedSetup, accuracies, make_task, set_up, write_partition, write_users
from fedpan_exp.studies.study import Study
from fedpan_exp.system.atomic_io import WriteError
from fedpan_exp.system.console import print_status, progress_bar, warn
from fedpan_exp.system.signals import Interrupted, StopRequest
from fedpan_exp.tracking.record import CHECKPOINT, Record

SUMMED = ("comm/up_bytes", "comm/down_bytes", "time/round_s")


@dataclass
class Federate(Study):
    name: str = "federate"  # the chosen option

    def total_rounds(self, experiment: Experiment) -> int:
        return experiment.fl_scene.H

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        run_federated(experiment, set_up(experiment), record, stop)


class Trained(NamedTuple):
    server: ServerState
    summary: dict[str, float]


def run_federated(experiment: Experiment, setup: FederatedSetup, record: Record, stop: StopRequest) -> Trained:
    """Run all rounds, resuming from the last checkpoint; afterwards the network holds the global model."""
    scene, trainer, task = experiment.fl_scene, setup.trainer, make_task(experiment, setup)
    probes = make_probes(experiment.probes, trainer, setup.clients, setup.test)

    record.lock()
    checkpoints = Checkpoints(record.folder / CHECKPOINT, record.name, experiment.checkpoint)
    states = ClientStates(checkpoints.states_folder, on_disk=scene.client_memory == "disk")
    resume = find_checkpoint(experiment, task, record, checkpoints, states)
    records = record.start(keep_bytes=resume.records if resume else 0)
    write_users(record, setup.data)
    write_partition(record, setup.data, setup.split, experiment.dataset.classes)
    rounds = resume.round_idx if resume else 0
    if resume:
        server = resume.server
        print_status("resume", f"after round {rounds}, from its checkpoint")

    first_round = rounds + 1
    ranks = count_ranks(experiment.ranks, task.cohort_size, trainer.fabric.device)
    if ranks > 1:
        print_status("ranks", f"{ranks} processes with one thread each train the clients of a round")
    with progress_bar("federate", scene.H * task.cohort_size, done=rounds * task.cohort_size) as progress:

        def on_clients_done(clients: int) -> None:
            progress.advance(clients)
            record.heartbeat()

        executor = make_executor(task, ranks, states, stop, on_clients_done, experiment.fabric.timeout)
        try:
            for round_ in federate(task, executor, resume):
                rounds, server, metrics = round_.index, round_.server, measure_round(experiment, probes, round_)
                record.write(rounds, metrics)
                records.append({"round": rounds, **metrics})
                is_kept = rounds in experiment.checkpoint.keep
                if checkpoints.is_due(rounds) or is_kept:
                    checkpoints.save(rounds, server, states, record.metrics_bytes)
                if is_kept:
                    checkpoints.keep(rounds, record.folder / KEPT)
                if rounds == first_round and (advice := torchrun.advice(trainer.fabric.device, task.cohort_size)):
                    print_status("ranks", advice)
                progress.describe(f"round {rounds}/{scene.H}  {describe(records)}")
        except BaseException as error:
            if isinstance(error, Interrupted) and error.cleanly and rounds:
                try:
                    checkpoints.save(rounds, server, states, record.metrics_bytes)
                except WriteError as failure:
                    warn(str(failure))
                error.saved_round = checkpoints.last_saved
            with suppress(WriteError):  # a run that ends early gets a summary too
                record.write_summary(summarise(records, experiment.target_acc))
            raise
    summary = summarise(records, experiment.target_acc)
    record.write_summary(summary)
    trainer.net.load(server.weights, server.buffers)
    record.save_weights(trainer.net.net.state_dict())
    return Trained(server, summary)


def find_checkpoint(
    experiment: Experiment, task: FederatedTask, record: Record, checkpoints: Checkpoints, states: ClientStates
) -> Checkpoint | None:
    """The state that the run continues from: its own last checkpoint, or the fork of another run."""
    if experiment.rerun:
        checkpoints.clear()
    resume = checkpoints.restore_latest(states, record.metrics_bytes, task.trainer.fabric.device)
    if resume or not (fork := experiment.forked()):
        return resume
    checkpoint = fork.start(task, states)
    record.copy_metrics(fork.records(checkpoint.records))
    return checkpoint


def measure_round(experiment: Experiment, probes: dict[str, Probe], round_: Round) -> dict[str, float]:
    """The metrics of a round, with test and probes where they are due."""
    metrics = round_.metrics()
    if experiment.algorithm.is_tested(round_.server, experiment.evaluates(round_.index)):
        score = round_.test()
        metrics |= {"global/test_acc": score.accuracy, "global/test_loss": score.loss}
    if round_.snapshot:
        metrics |= measure(probes, round_.snapshot)
    return metrics


def describe(records: list[dict[str, Any]]) -> str:
    """The state of the run in one line."""
    tested = [record["global/test_acc"] for record in records if "global/test_acc" in record]
    latest = f"{tested[-1]:.2%}" if tested else "?"
    last = records[-1]
    return f"loss {last['train/loss']:.4f}  accuracy {latest}  {1 / last['time/round_s']:.2f} rounds/s"


def summarise(records: list[dict[str, Any]], target: float) -> dict[str, float]:
    """The values of a run that tables show."""
    values = accuracies([record["global/test_acc"] for record in records if "global/test_acc" in record])
    values["summary/rounds"] = len(records)
    for name in SUMMED:
        values[f"summary/{name}"] = sum(record[name] for record in records)
    reached = next((i for i, record in enumerate(records, 1) if record.get("global/test_acc", -1.0) >= target), None)
    if reached:
        values["summary/rounds_to_target"] = reached
        values["summary/bytes_to_target"] = sum(r["comm/up_bytes"] + r["comm/down_bytes"] for r in records[:reached])
    probed = [{name: r[name] for name in r if name.split("/")[0] in PROBES} for r in records]
    values |= {f"summary/{name}": value for name, value in next(filter(None, reversed(probed)), {}).items()}
    return values
