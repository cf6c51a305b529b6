"""Train a global model over clients, round by round: the main job."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedpan_exp.algorithms import Server
from fedpan_exp.config import Experiment
from fedpan_exp.federation import Checkpoints, Memories, count_ranks, federate
from fedpan_exp.probes import PROBES, make_probes, measure
from fedpan_exp.studies.setup import World, accuracies, make_world, note_partition, note_users
from fedpan_exp.studies.study import Study
from fedpan_exp.system.console import job, say
from fedpan_exp.system.signals import Interrupted, Stop
from fedpan_exp.tracking.record import CHECKPOINT, Record

SUMMED = ("comm/up_bytes", "comm/down_bytes", "time/round_s")


@dataclass
class Federate(Study):
    name: str = "federate"

    def run(self, experiment: Experiment, record: Record, stop: Stop) -> None:
        train_globally(experiment, make_world(experiment), record, stop)


class Trained(NamedTuple):
    server: Server
    summary: dict[str, float]


def train_globally(experiment: Experiment, world: World, record: Record, stop: Stop) -> Trained:
    """All rounds, from the last checkpoint on; the network holds the global model afterwards."""
    scene, trainer, clients = experiment.fl_scene, world.trainer, world.clients
    probes = make_probes(experiment.probes, trainer, clients, world.test)

    record.hold()
    checkpoints = Checkpoints(record.folder / CHECKPOINT, record.name, experiment.checkpoint)
    memories = Memories(checkpoints.memories, on_disk=scene.client_memory == "disk")
    if experiment.rerun:
        checkpoints.clear()
    resume = checkpoints.latest(memories, record.position, trainer.fabric.device)
    records = record.begin(keep=resume.records if resume else 0)
    note_users(record, world.data)
    note_partition(record, world.data, world.split, experiment.dataset.classes)
    rounds = resume.turn if resume else 0
    if resume:
        server = resume.server
        say("resume", f"after round {rounds}, from its checkpoint")

    invited = scene.invited(len(clients))
    ranks = count_ranks(experiment.ranks, invited, trainer.fabric.device)
    if ranks > 1:
        say("ranks", f"{ranks} processes with a thread each share the clients of a round")
    with job("federate", scene.H * invited, done=rounds * invited) as progress:

        def track(chosen: list[int]) -> Iterator[int]:
            for k in progress.track(chosen):
                record.beat()
                yield k

        algorithm, seed, keeps = experiment.algorithm, experiment.seed, experiment.probes_at
        run = federate(
            algorithm, trainer, clients, scene, seed, track, memories, resume, stop, world.test, ranks, keeps
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
                    checkpoints.save(rounds, server, memories, record.position)
                progress.note(f"round {rounds}/{scene.H}  {describe(records)}")
        except Interrupted as interruption:
            if interruption.politely and rounds:
                checkpoints.save(rounds, server, memories, record.position)
            raise
        finally:  # a run that ends early has a summary too
            came_out = summary(records, experiment.target_acc)
            record.summarise(came_out)
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
