"""Train a global model over clients, round by round: the main job."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedpan_exp.console import job, say
from fedpan_exp.data import Clients
from fedpan_exp.experiment import Experiment
from fedpan_exp.federation import DiskMemories, Memories, federate
from fedpan_exp.studies.setup import check_batch_norm, describe_network, load_and_split
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import Classifier, LocalTrainer

LAST = 5  # the paper reports the mean accuracy of the last five rounds


@dataclass
class Federate:
    name: str = "federate"
    irrelevant: ClassVar[tuple[str, ...]] = ()  # groups that cannot change what comes out

    def run(self, experiment: Experiment, record: Record) -> None:
        scene = experiment.fl_scene
        net = experiment.network()
        describe_network(experiment, net)
        data, split = load_and_split(experiment)

        fabric = experiment.fabric.make()
        say(
            "device",
            f"{fabric.device}, {torch.get_num_threads()} threads, precision {experiment.fabric.precision}",
        )
        pixels = experiment.dataset.pixels(fabric.device)
        trainer = LocalTrainer(fabric, Classifier(net, experiment.training), pixels)
        clients = Clients(data.train.to(fabric.device), pixels, split.parts, scene.local_test, experiment.seed)
        test = data.test.to(fabric.device)
        if trainer.has_batch_norm:
            check_batch_norm([len(part) for part in clients.train], scene.B)

        record.begin()
        accuracies: dict[int, float] = {}
        totals = {"comm/up_bytes": 0.0, "comm/down_bytes": 0.0, "time/round_s": 0.0}
        memories: Memories = DiskMemories(record.folder / "clients") if scene.client_memory == "disk" else {}
        rounds = 0
        with job("federate", scene.H * scene.invited(len(clients))) as progress:
            run = federate(experiment.algorithm, trainer, clients, scene, experiment.seed, progress.track, memories)
            try:
                for this in run:
                    rounds, metrics = this.index, this.metrics()
                    if experiment.evaluates(rounds):
                        trainer.net.load(this.server.weights, this.server.buffers)
                        score = trainer.evaluate(test)
                        metrics |= {"global/test_acc": score.accuracy, "global/test_loss": score.loss}
                        accuracies[rounds] = score.accuracy
                    record.write(rounds, metrics)
                    for name in totals:
                        totals[name] += metrics[name]
                    latest = f"{list(accuracies.values())[-1]:.2%}" if accuracies else "?"
                    progress.note(
                        f"round {rounds}/{scene.H}  loss {metrics['train/loss']:.4f}  accuracy {latest}  "
                        f"{rounds / progress.elapsed():.2f} rounds/s"
                    )
            finally:  # a run that ends early has a summary too
                record.summarise(summary(accuracies, rounds, totals))
                memories.clear()  # no client will be visited again
        trainer.net.load(this.server.weights, this.server.buffers)
        record.save_weights(net.state_dict())


def summary(accuracies: dict[int, float], rounds: int, totals: dict[str, float]) -> dict[str, float]:
    """What a table of runs shows."""
    values: dict[str, float] = {}
    if accuracies:
        last = list(accuracies.values())[-LAST:]
        values["summary/last5_acc"] = sum(last) / len(last)
        values["summary/best_acc"] = max(accuracies.values())
        values["summary/final_acc"] = last[-1]
    return values | {"summary/rounds": rounds} | {f"summary/{name}": total for name, total in totals.items()}
