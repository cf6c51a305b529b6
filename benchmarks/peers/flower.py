"""Flower: its simulation engine with one Ray actor per core, one thread each."""
# mypy: disable-error-code="import-not-found"
# (installed only in the peers' environment)

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.peers.job import LR, SGD, TASKS, B, Job, K, network, tensors


def train(net: nn.Module, x: Tensor, y: Tensor, E: int) -> None:
    """Local training, which Flower leaves to the user: the same as in the floor."""
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), LR, **SGD)
    for _ in range(E):
        for batch in torch.randperm(len(y)).split(B):
            F.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
            optimizer.zero_grad()


@torch.inference_mode()
def accuracy(net: nn.Module, x: Tensor, y: Tensor, batch: int) -> float:
    net.eval()
    batches = zip(x.split(batch), y.split(batch), strict=True)
    return sum(int((net(images).argmax(1) == labels).sum()) for images, labels in batches) / len(y)


def main() -> None:
    job, client, server = Job(), ClientApp(), ServerApp()
    path, name = job.data, job.name  # actors receive only these two

    @client.train()
    def train_client(message: Message, context: Context) -> Message:
        data, net = tensors(path), network(name)
        part = data["parts"][int(context.node_config["partition-id"])]
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        train(net, data["train_x"][part], data["train_y"][part], TASKS[name].E)
        metrics = MetricRecord({"num-examples": len(part)})
        return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=message)

    def test(round_idx: int, arrays: ArrayRecord) -> MetricRecord:
        data, net = tensors(path), network(name)
        net.load_state_dict(arrays.to_torch_state_dict())
        value = accuracy(net, data["test_x"], data["test_y"], TASKS[name].test_batch)
        if round_idx:  # 0 is the evaluation before the first round
            job.end_round(value)
        return MetricRecord({"accuracy": value})

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_train=job.task.cohort_size / K, fraction_evaluate=0.0, min_available_nodes=K)
        strategy.start(grid, ArrayRecord(network(name).state_dict()), job.rounds, evaluate_fn=test)

    run_simulation(server, client, K, backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}})
    job.report()


if __name__ == "__main__":
    main()
