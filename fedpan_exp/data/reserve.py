"""Training images that no client has: a server may use them without their labels."""

from dataclasses import replace

import torch
from torch import Tensor

from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.system.rng import rng


def withhold(data: DatasetSplits, fraction: float, seed: int) -> tuple[DatasetSplits, Tensor | None]:
    """Draw images [N, C, H, W] from the training set; return what is left of the dataset, and the images."""
    if fraction == 0:
        return data, None
    size = max(1, round(fraction * len(data.train)))
    order = torch.randperm(len(data.train), generator=rng(seed, "reserve"))
    return replace(data, train=data.train[order[size:].sort().values]), data.train.x[order[:size].sort().values]
