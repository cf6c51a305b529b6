"""Train a global model over clients, round by round: the main job."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from fedpan_exp.console import job, say
from fedpan_exp.experiment import Experiment
from fedpan_exp.federation import Checkpoints, Memories, federate
from fedpan_exp.stopping import Interrupted, Stop
from fedpan_exp.studies.setup import accuracies, make_world, note_partition, note_users
from fedpan_exp.tracking.record import CHECKPOINT, Record

SUMMED = ("comm/up_bytes", "comm/down_bytes", "time/round_s")


@dataclass
class Federate:
    name: str = "federate"
    irrelevant: ClassVar[tuple[str, ...]] = ()  # groups that cannot change what comes out

    def run(self, experiment: Experiment, record: Record, stop: Stop) -> None:
        scene, world = experiment.fl_scene, make_world(experiment)
        trainer, clients = world.trainer, world.clients

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
        with job("federate", scene.H * invited, done=rounds * invited) as progress:

            def track(chosen: list[int]) -> Iterator[int]:
                for k in progress.track(chosen):
                    record.beat()
                    yield k

            algorithm, seed = experiment.algorithm, experiment.seed
            run = federate(algorithm, trainer, clients, scene, seed, track, memories, resume, stop)
            try:
                for this in run:
                    rounds, server, metrics = this.index, this.server, this.metrics()
                    if experiment.evaluates(rounds):
                        trainer.net.load(server.weights, server.buffers)
                        score = trainer.evaluate(world.test)
                        metrics |= {"global/test_acc": score.accuracy, "global/test_loss": score.loss}
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
                record.summarise(summary(records, experiment.target_acc))
        trainer.net.load(server.weights, server.buffers)
        record.save_weights(trainer.net.net.state_dict())


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
    return values
