"""The floor: one round of FedAvg as one would write it by hand for one network, with the data in tensors."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedpan_exp.data import Images, Pixels


class Floor:
    """Plain torch: no Fabric, no hooks, no records; the same number of the same steps."""

    def __init__(self, net: nn.Module, images: Tensor, labels: Tensor, pixels: Pixels, parts: Sequence[Tensor]):
        self.net, self.labels, self.pixels, self.parts = net, labels, pixels, parts
        self.augments = pixels.crop_padding > 0 or pixels.flip
        self.images = images if self.augments else pixels.clean(images)
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
                        x = self.pixels.varied(x, generator)
                    F.cross_entropy(self.net(x), self.labels[batch]).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    step += 1
            for total, p in zip(mean, parameters, strict=True):
                total.add_(p.detach(), alpha=1 / len(chosen))
        self.server = mean

    @torch.inference_mode()
    def test(self, images: Images, batch: int = 500) -> float:
        """The averaged weights on the test set."""
        for p, start in zip(self.net.parameters(), self.server, strict=True):
            p.copy_(start)
        self.net.eval()
        right = 0
        for x, y in zip(images.x.split(batch), images.y.split(batch), strict=True):
            right += int((self.net(self.pixels.clean(x)).argmax(1) == y).sum())
        return right / len(images)
