"""The clients' data: mini-batches by indexing into the one training set that all clients share."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fedpan_exp.data.images import ImageTensors
from fedpan_exp.data.transforms import ImageTransform
from fedpan_exp.system.rng import rng

Batch = tuple[Tensor, Tensor]


class Clients:
    """Who owns which training samples; a share of each client's may be held out as its local test set."""

    def __init__(
        self, images: ImageTensors, transform: ImageTransform, parts: Sequence[Tensor], local_test: float, seed: int
    ):
        self.images, self.transform, self.seed = images, transform, seed
        self.train: list[Tensor] = []
        self.test: list[Tensor] = []
        for k, part in enumerate(parts):
            held_out = int(local_test * len(part))
            if held_out:
                part = part[torch.randperm(len(part), generator=rng(seed, "local_test", k))]
            self.train.append(part[held_out:])
            self.test.append(part[:held_out])

    def __len__(self) -> int:
        return len(self.train)

    def samples(self, k: int) -> int:
        return len(self.train[k])

    def batches(self, k: int, round_idx: int, E: int, B: int, skip_single: bool = False) -> Iterator[Batch]:
        """E epochs of shuffled, augmented mini-batches: the same for every algorithm, model and PAN setting."""
        generator = rng(self.seed, "batches", round_idx, k)
        for _ in range(E):
            order = self.train[k][torch.randperm(self.samples(k), generator=generator)].to(self.images.x.device)
            for batch in order.split(B):
                x, y = (
                    tensor.index_select(0, batch) for tensor in (self.images.x, self.images.y)
                )  # 3 x faster than []
                x = self.transform.augment(x, generator)
                if not (skip_single and len(batch) == 1):  # BatchNorm cannot train on one sample
                    yield x, y

    def owned(self, k: int) -> ImageTensors:
        """All that it trains on."""
        return self._images(self.train[k])

    def held_out(self, k: int) -> ImageTensors:
        return self._images(self.test[k])

    def _images(self, part: Tensor) -> ImageTensors:
        index = part.to(self.images.x.device)
        return ImageTensors(self.images.x[index], self.images.y[index])
