"""Normalization and augmentation of uint8 images, on whole batches and on their device."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


class ImageTransform:
    """(x / 255 - mean) / std, preceded in training by a random crop of the padded image and a random flip, if set."""

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        crop_padding: int = 0,
        flip: bool = False,
        device: torch.device | str = "cpu",
    ):
        self.crop_padding, self.flip = crop_padding, flip
        mean_, std_ = (torch.tensor(values, device=device).view(-1, 1, 1) for values in (mean, std))
        self._scale, self._shift = 1 / (255 * std_), -mean_ / std_

    @property
    def augments(self) -> bool:
        """Whether `augment` varies images; otherwise it only normalizes them."""
        return self.crop_padding > 0 or self.flip

    def normalize(self, x: Tensor) -> Tensor:
        return x.float().mul_(self._scale).add_(self._shift)

    def augment(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Crop, flip and normalize. The generator is on the CPU, so that results do not depend on the device."""
        if self.crop_padding:
            x = _random_crop(x, self.crop_padding, generator)
        if self.flip:
            flips = (torch.rand(len(x), generator=generator) < 0.5).to(x.device)
            x = torch.where(flips.view(-1, 1, 1, 1), x.flip(3), x)
        return self.normalize(x)


def _random_crop(x: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """Pad with zeros, then crop each image to its original size at a random offset."""
    height, width = x.shape[2:]
    windows = F.pad(x, (padding,) * 4).unfold(2, height, 1).unfold(3, width, 1)  # a view: [N, C, 2p+1, 2p+1, H, W]
    rows, columns = torch.randint(0, 2 * padding + 1, (2, len(x)), generator=generator).to(x.device)
    return windows[torch.arange(len(x), device=x.device), :, rows, columns]
