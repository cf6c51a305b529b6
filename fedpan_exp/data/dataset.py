"""The settings of a dataset, and the table from its name to where it comes from."""

from dataclasses import dataclass, field
from pathlib import Path

import torch

from fedpan_exp.checks import DataError, require, require_choice
from fedpan_exp.data.cifar import CIFAR10
from fedpan_exp.data.digits import load_digits
from fedpan_exp.data.idx import FASHION_MNIST, MNIST
from fedpan_exp.data.images import Data
from fedpan_exp.data.pixels import Pixels
from fedpan_exp.data.store import Source, obtain

SOURCES: dict[str, Source] = {source.name: source for source in (MNIST, FASHION_MNIST, CIFAR10)}
BUILT_IN = {"digits": load_digits}  # comes with an installed package: nothing to find or fetch


@dataclass
class DatasetSettings:
    name: str = ""
    root: str = "data"  # where the files lie, or go
    shape: list[int] = field(default_factory=list)  # channels, height, width
    classes: int = 0
    mean: list[float] = field(default_factory=list)  # of each channel, on a scale of 0 to 1
    std: list[float] = field(default_factory=list)
    crop_padding: int = 0  # pixels of padding before a random crop; 0: no crop
    flip: bool = False  # random horizontal flip
    B: int = 64  # the batch size the paper uses with it; fl_scene.B takes it

    def __post_init__(self) -> None:
        require_choice("dataset.name", self.name, (*SOURCES, *BUILT_IN))
        is_shape = len(self.shape) == 3 and min(self.shape) > 0
        require(is_shape, "dataset.shape", "channels, height, width", self.shape)
        channels = self.shape[0]
        require(len(self.mean) == channels, "dataset.mean", f"{channels} numbers, one a channel", self.mean)
        require(len(self.std) == channels, "dataset.std", f"{channels} numbers, one a channel", self.std)
        require(all(value > 0 for value in self.std), "dataset.std", "above 0", self.std)
        require(self.crop_padding >= 0, "dataset.crop_padding", "at least 0", self.crop_padding)

    def load(self) -> Data:
        data = BUILT_IN[self.name]() if self.name in BUILT_IN else obtain(SOURCES[self.name], Path(self.root))
        found = list(data.train.x.shape[1:])
        if found != self.shape:
            raise DataError(f"dataset.shape must be {found}, as the images of {self.name} are, got {self.shape}")
        labels = int(data.train.y.max()) + 1
        if labels > self.classes:
            raise DataError(f"dataset.classes must be at least {labels}, as {self.name} has, got {self.classes}")
        return data

    def pixels(self, device: torch.device) -> Pixels:
        return Pixels(self.mean, self.std, self.crop_padding, self.flip, device)
