"""Local training and evaluation, for simulators that leave them to the user: the same as in the floor."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.peers.job import LR, SGD, B


def train(net: nn.Module, x: Tensor, y: Tensor, E: int) -> None:
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
