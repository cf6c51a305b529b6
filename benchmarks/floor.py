"""The floor: one round of FedAvg as one would write it by hand for one network, with the data in tensors.

Plain torch: no Fabric, no hooks, no records; the same number of the same steps. It runs in a process of its own,
because ours tells the allocator what to do.
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
        self.augments = transform.crop_padding > 0 or transform.flip
        self.images = images if self.augments else transform.normalize(images)
        self.server = [p.detach().clone() for p in net.parameters()]

    def round(self, chosen: Sequence[int], E: int, B: int, lr: float, warmup: int) -> None:
        parameters = list(self.net.parameters())
        mean = [torch.zeros_like(p) for p in self.server]
        generator = torch.Generator().manual_seed(0)
        self.net.train()
        for k in chosen:
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
                        x = self.transform.augment(x, generator)
                    F.cross_entropy(self.net(x), self.labels[batch]).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    step += 1
            for total, p in zip(mean, parameters, strict=True):
                total.add_(p.detach(), alpha=1 / len(chosen))
        self.server = mean

    @torch.inference_mode()
    def test(self, images: ImageTensors, batch: int = 500) -> float:
        """The averaged weights on the test set."""
        for p, start in zip(self.net.parameters(), self.server, strict=True):
            p.copy_(start)
        self.net.eval()
        right = 0
        for x, y in zip(images.x.split(batch), images.y.split(batch), strict=True):
            right += int((self.net(self.transform.normalize(x)).argmax(1) == y).sum())
        return right / len(images)


def floor_of(setting: Experiment, net: nn.Module) -> tuple[Floor, ImageTensors]:
    """For the experiment's clients; and the images of its test."""
    data = setting.dataset.load(setting.seed)
    parts = split(data.train.y, setting.fl_scene.partition_config(), setting.seed).parts
    return Floor(net, data.train.x, data.train.y, setting.dataset.transform(torch.device("cpu")), parts), data.test


class FloorProcess:
    """Takes the rounds of an experiment, and its clients, when it is told to, with as many threads as serve it best:
    small nets are slower on two than on one, by far if the machine is busy."""

    def __init__(self, overrides: Sequence[str]):
        mine, its = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_serve, args=(its, tuple(overrides)), daemon=True)
        self._process.start()
        self._pipe = mine
        self.threads: int = mine.recv()

    def seconds(self, round_idx: int, tested: bool) -> float:
        """Of a round, with its test or without."""
        self._pipe.send((round_idx, tested))
        return float(self._pipe.recv())

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join()


def _serve(pipe: Connection, overrides: tuple[str, ...]) -> None:
    config.register(load_studies())
    setting = config.experiment(*overrides)
    scene, training = setting.fl_scene, setting.training
    floor, images = floor_of(setting, setting.network())

    def seconds(chosen: Sequence[int], E: int, tested: bool) -> float:
        began = time.perf_counter()
        floor.round(chosen, E, scene.B, training.lr, training.warmup_length)
        if tested:
            floor.test(images)
        return time.perf_counter() - began

    def trial(threads: int) -> float:
        """Of one client, the better of two."""
        torch.set_num_threads(threads)
        return min(seconds([0], 1, tested=False) for _ in range(2))

    threads = min({1, torch.get_num_threads()}, key=trial)
    torch.set_num_threads(threads)
    pipe.send(threads)
    while task := pipe.recv():
        round_idx, tested = task
        pipe.send(seconds(scene.sample_cohort(scene.K, round_idx, setting.seed), scene.E, tested))
