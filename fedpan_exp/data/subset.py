"""A part of a dataset that has its class proportions."""

import torch

from fedpan_exp.data.images import ImageTensors
from fedpan_exp.system.errors import require
from fedpan_exp.system.rng import rng


def draw_subset(images: ImageTensors, setting: str, samples: int | None, seed: int) -> ImageTensors:
    """Draw `samples` images, in the original order, each class to within one of its share; None: all images.

    `setting` is the name of the number, for the error message and the random generator.
    """
    if samples is None:
        return images
    require(samples <= len(images), setting, f"at most {len(images):,}, the number of images, or null", samples)
    shuffled = torch.randperm(len(images), generator=rng(seed, setting))
    by_class = shuffled[images.y[shuffled].argsort(stable=True)]
    steps = (2 * torch.arange(samples) + 1) * len(images) // (2 * samples)  # evenly over the classes
    return images[by_class[steps].sort().values]
