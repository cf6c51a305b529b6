"""The floor: a round of FedAvg in plain torch, written by hand for one network, with the data in tensors.

It takes the same steps, but has no Fabric, no hooks and no records. It runs in a separate process, because fedpan_exp
changes the settings of the memory allocator.
"""

import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedpan_exp import config
from fedpan_exp.config import Experiment
from fedpan_exp.data import ImageTensors, ImageTransform, split
from fedpan_exp.studies import load_studies


class Floor:
    def __init__(
        self, net: nn.Module, images: Tensor, labels: Tensor, transform: ImageTransform, parts: Sequence[Tensor]
    ):
        self.net, self.labels, self.transform, self.parts = net, labels, transform, parts
        self.augments = transform.augments
        self.images = images if self.augments else transform.normalize(images)
        self.server = [p.detach().clone() for p in net.parameters()]

    def round(self, cohort: Sequence[int], E: int, B: int, lr: float, warmup: int) -> None:
        parameters = list(self.net.parameters())
        mean = [torch.zeros_like(p) for p in self.server]
        generator = torch.Generator().manual_seed(0)
        self.net.train()
        for k in cohort:
            with torch.no_grad():
                for p, start in zip(parameters, self.server, strict=True):
                    p.copy_(start)
            optimizer = torch.optim.SGD(parameters, lr, momentum=0.9, fused=True)
            step = 0
            for _ in range(E):
                order = self.parts[k][torch.randperm(len(self.parts[k]), generator=generator)]
                for batch in order.split(B):
                    optimizer.param_groups[0]["lr"] = lr * min(1.0, (step + 1) / warmup)
                    x = self.images[batch]
                    if self.augments:
                        x = self.transform.augment(x, self.transform.draw([len(x)], generator))
                    F.cross_entropy(self.net(x), self.labels[batch]).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    step += 1
            for total, p in zip(mean, parameters, strict=True):
                total.add_(p.detach(), alpha=1 / len(cohort))
        self.server = mean

    @torch.inference_mode()
    def test(self, images: ImageTensors, batch: int = 500) -> float:
        """The accuracy of the averaged weights on the test set."""
        for p, start in zip(self.net.parameters(), self.server, strict=True):
            p.copy_(start)
        self.net.eval()
        correct = 0
        for x, y in zip(images.x.split(batch), images.y.split(batch), strict=True):
            correct += int((self.net(self.transform.normalize(x)).argmax(1) == y).sum())
        return correct / len(images)


def make_floor(setting: Experiment, net: nn.Module) -> tuple[Floor, ImageTensors]:
    """The floor on the experiment's clients, and the test set."""
    data = setting.dataset.load(setting.seed)
    parts = split(data.train.y, setting.fl_scene.partition_config(), setting.seed).parts
    return Floor(net, data.train.x, data.train.y, setting.dataset.transform(torch.device("cpu")), parts), data.test


class FloorProcess:
    """Runs rounds of an experiment on request, with the number of threads that is fastest.

    Small networks are slower on two threads than on one, and much slower if the machine is busy.
    """

    def __init__(self, overrides: Sequence[str]):
        self._pipe, child_pipe = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_serve, args=(child_pipe, tuple(overrides)), daemon=True)
        self._process.start()
        self.threads: int = self._pipe.recv()

    def seconds(self, round_idx: int, with_test: bool) -> float:
        """The time of a round, with or without evaluation."""
        self._pipe.send((round_idx, with_test))
        return float(self._pipe.recv())

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join()


def _serve(pipe: Connection, overrides: tuple[str, ...]) -> None:
    config.register(load_studies())
    setting = config.experiment(*overrides)
    scene, training = setting.fl_scene, setting.training
    floor, test_images = make_floor(setting, setting.network())

    def seconds(cohort: Sequence[int], E: int, with_test: bool) -> float:
        started = time.perf_counter()
        floor.round(cohort, E, scene.B, training.lr, training.warmup_length)
        if with_test:
            floor.test(test_images)
        return time.perf_counter() - started

    def trial(threads: int) -> float:
        """Seconds for one client, the best of two."""
        torch.set_num_threads(threads)
        return min(seconds([0], 1, with_test=False) for _ in range(2))

    threads = min({1, torch.get_num_threads()}, key=trial)
    torch.set_num_threads(threads)
    pipe.send(threads)
    while request := pipe.recv():
        round_idx, with_test = request
        pipe.send(seconds(scene.sample_cohort(scene.K, round_idx, setting.seed), int(scene.E), with_test))
