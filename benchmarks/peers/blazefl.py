"""BlazeFL: its process pool with shared memory, one process per core, one thread each."""
# mypy: disable-error-code="import-not-found,misc"
# (installed only in the peers' environment)

import os
import random
import threading
from dataclasses import dataclass

import torch
import torch.multiprocessing as mp
from blazefl.core import IPCMode, ProcessPoolClientTrainer, SHMHandle, deserialize_model, serialize_model
from torch import Tensor

from benchmarks.peers.job import TASKS, Job, K, network, tensors
from benchmarks.peers.plain_training import accuracy, train


@dataclass
class ClientConfig:
    k: int
    name: str
    data: str  # the file; its tensors are in memory when BlazeFL forks


@dataclass
class Weights:
    """What BlazeFL sends in both directions."""

    vector: Tensor | SHMHandle


class Trainer(ProcessPoolClientTrainer[Weights, Weights, ClientConfig]):
    def __init__(self, job: Job):
        self.num_parallels, self.device, self.ipc_mode = os.cpu_count() or 1, "cpu", IPCMode.SHARED_MEMORY
        self.stop_event = mp.Manager().Event()
        self.cache: list[Weights] = []
        self.job = job

    def get_client_config(self, cid: int) -> ClientConfig:
        return ClientConfig(cid, self.job.name, self.job.data)

    def prepare_uplink_package_buffer(self) -> Weights:
        return Weights(serialize_model(network(self.job.name)))

    @staticmethod
    def worker(
        config: ClientConfig, payload: Weights, device: str, stop_event: threading.Event, *, shm_buffer: Weights
    ) -> Weights:
        torch.set_num_threads(1)
        data, net = tensors(config.data), network(config.name)
        part = data["parts"][config.k]
        deserialize_model(net, payload.vector)
        train(net, data["train_x"][part], data["train_y"][part], TASKS[config.name].E)
        shm_buffer.vector.copy_(serialize_model(net))
        return Weights(SHMHandle())

    def uplink_package(self) -> list[Weights]:
        packages, self.cache = self.cache, []
        return packages


def main() -> None:
    job, chosen = Job(), random.Random(0)
    data, net, trainer = tensors(job.data), network(job.name), Trainer(job)
    for _ in range(job.rounds):
        trainer.local_process(Weights(serialize_model(net)), chosen.sample(range(K), job.task.cohort_size))
        packages = trainer.uplink_package()
        deserialize_model(net, sum(package.vector for package in packages) / len(packages))  # clients of equal size
        job.end_round(accuracy(net, data["test_x"], data["test_y"], job.task.test_batch))
    job.report()


if __name__ == "__main__":
    main()
