"""Flower: its simulation engine with one Ray actor per core, one thread each."""
# mypy: disable-error-code="import-not-found"
# (installed only in the peers' environment)

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.peers.job import TASKS, Job, K, network, tensors
from benchmarks.peers.plain_training import accuracy, train


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
