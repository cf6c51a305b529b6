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

    def draw(self, batch_sizes: Sequence[int], generator: torch.Generator) -> Tensor:
        """Draw the row and column of each image's crop, and whether it is flipped: int64 [3, images].

        The draws are made in main memory, batch after batch, so that they are the same for every device.
        """
        draws = torch.zeros(3, sum(batch_sizes), dtype=torch.long)
        if self.augments:
            for rows_and_columns, flips in zip(
                draws[:2].split(batch_sizes, 1), draws[2].split(batch_sizes), strict=True
            ):
                if self.crop_padding:
                    torch.randint(
                        0, 2 * self.crop_padding + 1, (2, len(flips)), generator=generator, out=rows_and_columns
                    )
                if self.flip:
                    flips.copy_(torch.rand(len(flips), generator=generator) < 0.5)
        return draws

    def augment(self, x: Tensor, draws: Tensor) -> Tensor:
        """Crop and flip the images as drawn, and normalize them; `draws` is on their device."""
        return self.normalize(_crop_and_flip(x, draws, self.crop_padding) if self.augments else x)


def _crop_and_flip(x: Tensor, draws: Tensor, padding: int) -> Tensor:
    """Pad with zeros, cut a window of the original size out of each image, and mirror it if it is to be flipped."""
    height, width = x.shape[2:]
    padded = F.pad(x, (padding,) * 4)
    rows, columns, flips = draws.unsqueeze(2)  # [N, 1] each
    down, along = (torch.arange(size, device=x.device) for size in (height, width))
    down = rows + down
    along = columns + torch.where(flips.bool(), width - 1 - along, along)
    pixels = (down.unsqueeze(2) * padded.shape[3] + along.unsqueeze(1)).flatten(1)  # [N, H x W]
    return padded.flatten(2).gather(2, pixels.unsqueeze(1).expand(-1, x.shape[1], -1)).view_as(x)
