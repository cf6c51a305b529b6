"""pfl-research: FederatedAveraging on its simulated backend; torchrun distributes it over processes."""
# mypy: disable-error-code="import-not-found"
# (installed only in the peers' environment)

from functools import partial

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.peers.job import LR, SGD, B, Job, K, network, tensors

NEVER = 10**9


class Net(nn.Module):
    """Adds the two methods that pfl requires."""

    def __init__(self, layers: nn.Sequential):
        super().__init__()
        self.layers = layers

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        self.train()
        return F.cross_entropy(self.layers(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Weighted]:
        self.eval()
        return {"accuracy": Weighted(int((self.layers(x).argmax(1) == y).sum()), len(y))}


class RoundTimer(TrainingProcessCallback):
    """Runs after pfl's evaluation callback, which evaluates before training instead of after the first round."""

    def __init__(self, job: Job):
        self.job = job

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.job.end_round(aggregate_metrics.to_simple_dict()["Central val | accuracy"])
        return False, Metrics()


def main() -> None:
    job = Job()
    np.random.seed(0)
    data, net = tensors(job.data), Net(network(job.name))
    x, y, parts = data["train_x"], data["train_y"], data["parts"]
    users = {k: Dataset((x[parts[k]], y[parts[k]]), user_id=str(k)) for k in range(K)}
    clients = FederatedDataset(users.__getitem__, get_user_sampler("random", list(users)))
    test = Dataset((data["test_x"], data["test_y"]))
    model = PyTorchModel(net, partial(torch.optim.SGD, **SGD), torch.optim.SGD(net.parameters(), lr=1.0))
    FederatedAveraging().run(
        NNAlgorithmParams(
            job.rounds, evaluation_frequency=NEVER, train_cohort_size=job.task.cohort_size, val_cohort_size=None
        ),
        SimulatedBackend(clients, clients),
        model,
        NNTrainHyperParams(local_batch_size=B, local_num_epochs=job.task.E, local_learning_rate=LR),
        callbacks=[CentralEvaluationCallback(test, NNEvalHyperParams(job.task.test_batch)), RoundTimer(job)],
    )
    job.report()


if __name__ == "__main__":
    main()
