"""The clients' data: mini-batches by indexing into one training set that all clients share."""

import math
from collections.abc import Iterator, Sequence
from itertools import count, islice

import torch
from torch import Tensor

from fedpan_exp.data.images import ImageTensors
from fedpan_exp.data.partition import sizes
from fedpan_exp.data.transforms import ImageTransform
from fedpan_exp.system.rng import rng

Batch = tuple[Tensor, Tensor]


class LocalParts(Sequence[Tensor]):
    """The sample indices of each client for training, or for its local test; divided when they are asked for."""

    def __init__(self, parts: Sequence[Tensor], local_test: float, seed: int, for_test: bool):
        self._parts, self._local_test, self._seed, self._for_test = parts, local_test, seed, for_test

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, k: int) -> Tensor:  # type: ignore[override]
        part = self._parts[k]
        test_size = int(self._local_test * len(part))
        if test_size:
            part = part[torch.randperm(len(part), generator=rng(self._seed, "local_test", k))]
        return part[:test_size] if self._for_test else part[test_size:]


class Clients:
    """Sample indices of each client; a fraction `local_test` of them forms its local test set."""

    def __init__(
        self,
        images: ImageTensors,
        transform: ImageTransform,
        parts: Sequence[Tensor],
        local_test: float,
        seed: int,
        classes: int | None = None,  # None: as many as the images have
    ):
        self.images, self.transform, self.seed = images, transform, seed
        self._labels = images.y.cpu()
        self._classes = classes or int(self._labels.max()) + 1
        self.sizes = [size - int(local_test * size) for size in sizes(parts)]  # training samples per client
        self.train, self.test = (LocalParts(parts, local_test, seed, for_test) for for_test in (False, True))

    def __len__(self) -> int:
        return len(self.sizes)

    def samples(self, k: int) -> int:
        """Number of training samples of client k."""
        return self.sizes[k]

    def label_counts(self, k: int) -> Tensor:
        """Number of training samples of client k per class, int64 [classes], in main memory."""
        return self._labels[self.train[k].cpu()].bincount(minlength=self._classes)

    def steps(self, k: int, E: float, B: int) -> int:
        """Number of mini-batches in E epochs of client k."""
        samples = self.samples(k)
        return int(E) * math.ceil(samples / B) + math.ceil(int(E % 1 * samples) / B)

    def batches(
        self, k: int, round_idx: int, E: float, B: int, skip_single: bool = False, steps: int | None = None
    ) -> Iterator[Batch]:
        """Yield shuffled, augmented mini-batches: the same for every algorithm, model and PAN setting.

        Of E epochs, the last one may be a fraction; or of as many epochs as `steps` batches need.
        """
        batches = self._epochs(k, round_idx, math.inf if steps else E, B, skip_single)
        return islice(batches, steps) if steps else batches

    def _epochs(self, k: int, round_idx: int, E: float, B: int, skip_single: bool) -> Iterator[Batch]:
        generator = rng(self.seed, "batches", round_idx, k)
        images, augments = self.train_images(k), self.transform.augments
        x_all = images.x if augments else self.transform.normalize(images.x)  # once for all epochs
        for epoch in count():
            samples = int(min(1.0, E - epoch) * self.samples(k))
            if samples < 1:
                return
            order = torch.randperm(self.samples(k), generator=generator)[:samples]
            # Also for a batch to skip: the random numbers stay the same.
            draws = self.transform.draw([len(index) for index in order.split(B)], generator)
            # One copy per epoch: at a copy per batch, the host would wait for the device.
            for batch in _send(torch.cat([order.unsqueeze(0), draws]), x_all.device).split(B, dim=1):
                index = batch[0]
                if skip_single and len(index) == 1:  # BatchNorm cannot train on one sample
                    continue
                x, y = x_all.index_select(0, index), images.y.index_select(0, index)  # 3 x faster than []
                yield self.transform.augment(x, batch[1:]) if augments else x, y

    def train_images(self, k: int) -> ImageTensors:
        return self._images(self.train[k])

    def test_images(self, k: int) -> ImageTensors:
        return self._images(self.test[k])

    def _images(self, part: Tensor) -> ImageTensors:
        index = _send(part, self.images.x.device)
        return ImageTensors(self.images.x.index_select(0, index), self.images.y.index_select(0, index))


def _send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor from main memory to the device without waiting for the device."""
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)
