"""fluke: FedAVG with its own loaders and evaluator, in one process (it uses several only on several GPUs)."""
# mypy: disable-error-code="import-not-found"
# (installed only in the peers' environment)

from typing import Any

from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.data import FastDataLoader
from fluke.evaluation import ClassificationEval
from fluke.utils import FederationObserver, ServerObserver
from torchmetrics import Accuracy

from benchmarks.peers.job import CLASSES, LR, SGD, B, Job, K, network, tensors


class FixedSplitter:
    """Replaces fluke's splitter: clients have the same data as in the other simulators."""

    def __init__(self, data: dict[str, Any], test_batch: int):
        self.data, self.test_batch = data, test_batch

    def assign(self, clients: int, batch: int) -> tuple[tuple[list[FastDataLoader], list[None]], FastDataLoader]:
        x, y, parts = (self.data[name] for name in ("train_x", "train_y", "parts"))
        loaders = [
            FastDataLoader(x[part], y[part], num_labels=CLASSES, batch_size=batch, shuffle=True) for part in parts
        ]
        test = FastDataLoader(self.data["test_x"], self.data["test_y"], num_labels=CLASSES, batch_size=self.test_batch)
        return (loaders, [None] * clients), test


class RoundTimer(ServerObserver, FederationObserver):
    def __init__(self, job: Job):
        self.job, self.accuracy = job, 0.0

    def server_evaluation(self, round: int, eval_type: str, evals: dict[str, float], **_: Any) -> None:
        self.accuracy = evals["accuracy"]

    def end_round(self, round: int) -> None:
        self.job.end_round(self.accuracy)


def main() -> None:
    job = Job()
    env = FlukeENV()
    env.set_seed(0)
    metric = Accuracy(task="multiclass", num_classes=CLASSES)  # only one; the default is seven metrics
    env.set_evaluator(ClassificationEval(eval_every=1, n_classes=CLASSES, accuracy=metric))
    client = {"batch_size": B, "local_epochs": job.task.E, "loss": "CrossEntropyLoss", "persistency": False}
    settings = DDict(
        client=DDict(**client, optimizer=DDict(name="SGD", lr=LR, **SGD), scheduler=DDict(gamma=1, step_size=1)),
        server=DDict(weighted=False),
        model=network(job.name),
    )
    federation = FedAVG(K, FixedSplitter(tensors(job.data), job.task.test_batch), settings)
    federation.set_callbacks(RoundTimer(job))
    federation.run(job.rounds, job.task.cohort_size / K)
    job.report()


if __name__ == "__main__":
    main()
