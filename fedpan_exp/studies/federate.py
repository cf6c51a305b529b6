"""Train a global model over clients, round by round: the main job."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedpan_exp.algorithms import ServerState
from fedpan_exp.config import Experiment
from fedpan_exp.federation import Checkpoints, ClientStates, count_ranks, federate
from fedpan_exp.probes import PROBES, make_probes, measure
from fedpan_exp.studies.setup import FederatedSetup, accuracies, set_up, write_partition, write_users
from fedpan_exp.studies.study import Study
from fedpan_exp.system.console import print_status, progress_bar
from fedpan_exp.system.signals import Interrupted, StopRequest
from fedpan_exp.tracking.record import CHECKPOINT, Record

SUMMED = ("comm/up_bytes", "comm/down_bytes", "time/round_s")


@dataclass
class Federate(Study):
    name: str = "federate"

    def total_rounds(self, experiment: Experiment) -> int:
        return experiment.fl_scene.H

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        run_federated(experiment, set_up(experiment), record, stop)


class Trained(NamedTuple):
    server: ServerState
    summary: dict[str, float]


def run_federated(experiment: Experiment, world: FederatedSetup, record: Record, stop: StopRequest) -> Trained:
    """All rounds, from the last checkpoint on; the network holds the global model afterwards."""
    scene, trainer, clients = experiment.fl_scene, world.trainer, world.clients
    probes = make_probes(experiment.probes, trainer, clients, world.test)

    record.lock()
    checkpoints = Checkpoints(record.folder / CHECKPOINT, record.name, experiment.checkpoint)
    states = ClientStates(checkpoints.states, on_disk=scene.client_memory == "disk")
    if experiment.rerun:
        checkpoints.clear()
    resume = checkpoints.latest(states, record.metrics_bytes, trainer.fabric.device)
    records = record.start(keep_bytes=resume.records if resume else 0)
    write_users(record, world.data)
    write_partition(record, world.data, world.split, experiment.dataset.classes)
    rounds = resume.round_idx if resume else 0
    if resume:
        server = resume.server
        print_status("resume", f"after round {rounds}, from its checkpoint")

    cohort_size = scene.cohort_size(len(clients))
    ranks = count_ranks(experiment.ranks, cohort_size, trainer.fabric.device)
    if ranks > 1:
        print_status("ranks", f"{ranks} processes with a thread each share the clients of a round")
    with progress_bar("federate", scene.H * cohort_size, done=rounds * cohort_size) as progress:

        def track(chosen: list[int]) -> Iterator[int]:
            for k in progress.track(chosen):
                record.heartbeat()
                yield k

        algorithm, seed, snapshot_at = experiment.algorithm, experiment.seed, experiment.probes_at
        run = federate(
            algorithm, trainer, clients, scene, seed, track, states, resume, stop, world.test, ranks, snapshot_at
        )
        try:
            for this in run:
                rounds, server, metrics = this.index, this.server, this.metrics()
                if experiment.evaluates(rounds):
                    score = this.test()
                    metrics |= {"global/test_acc": score.accuracy, "global/test_loss": score.loss}
                if this.kept:
                    metrics |= measure(probes, this.kept)
                record.write(rounds, metrics)
                records.append({"round": rounds, **metrics})
                if checkpoints.is_due(rounds):
                    checkpoints.save(rounds, server, states, record.metrics_bytes)
                progress.describe(f"round {rounds}/{scene.H}  {describe(records)}")
        except Interrupted as interruption:
            if interruption.cleanly and rounds:
                checkpoints.save(rounds, server, states, record.metrics_bytes)
                interruption.saved_round = rounds
            raise
        finally:  # a run that ends early has a summary too
            came_out = summary(records, experiment.target_acc)
            record.write_summary(came_out)
    trainer.net.load(server.weights, server.buffers)
    record.save_weights(trainer.net.net.state_dict())
    return Trained(server, came_out)


def describe(records: list[dict[str, Any]]) -> str:
    """Where the run stands, in a line."""
    tested = [record["global/test_acc"] for record in records if "global/test_acc" in record]
    latest = f"{tested[-1]:.2%}" if tested else "?"
    last = records[-1]
    return f"loss {last['train/loss']:.4f}  accuracy {latest}  {1 / last['time/round_s']:.2f} rounds/s"


def summary(records: list[dict[str, Any]], target: float) -> dict[str, float]:
    """What a table of runs shows."""
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
