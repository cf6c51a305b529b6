"""Settings of a dataset, and the sources of all datasets by name."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from fedpan_exp.data.datasets.cifar import CIFAR10, CIFAR100
from fedpan_exp.data.datasets.cinic import CINIC10
from fedpan_exp.data.datasets.digits import load_digits
from fedpan_exp.data.datasets.femnist import FEMNIST
from fedpan_exp.data.datasets.gtsrb import GTSRB
from fedpan_exp.data.datasets.mnist import FASHION_MNIST, MNIST
from fedpan_exp.data.datasets.svhn import SVHN
from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.data.source import Source
from fedpan_exp.data.store import has_files, load_or_download
from fedpan_exp.data.subset import draw_subset
from fedpan_exp.data.transforms import ImageTransform
from fedpan_exp.data.users import draw_users, hold_out
from fedpan_exp.system.console import print_status
from fedpan_exp.system.errors import DataError, require, require_choice

SOURCES: dict[str, Source] = {
    source.name: source for source in (MNIST, FEMNIST, SVHN, GTSRB, CIFAR10, CIFAR100, CINIC10, FASHION_MNIST)
}
BUILT_IN = {"digits": load_digits}  # part of an installed package: nothing to download
LOADERS: dict[str, Callable[[Path], DatasetSplits]] = {}  # of plugins: from dataset.root to images


DATASETS = (*SOURCES, *BUILT_IN)


def load_dataset(name: str, root: str, verify: bool = True) -> DatasetSplits:
    """The whole dataset, downloaded if needed."""
    if name in BUILT_IN:
        return BUILT_IN[name]()
    return load_or_download(SOURCES[name], Path(root).expanduser(), verify)


@dataclass
class DatasetSettings:
    name: str = ""  # the chosen option
    root: str = "data"  # folder of the datasets; downloads go there too
    verify: bool = True  # false: accept files that are not the official ones
    shape: list[int] = field(default_factory=list)  # channels, height, width
    classes: int = 0  # number of labels
    mean: list[float] = field(default_factory=list)  # per channel, of pixels scaled to 0 to 1
    std: list[float] = field(default_factory=list)  # per channel, likewise
    crop_padding: int = 0  # pixels of padding before a random crop; 0: no crop
    flip: bool = False  # random horizontal flip
    samples: int | None = None  # training images, drawn by the seed in the classes' proportions; None: all
    test_samples: int | None = None  # likewise, of the test set
    user_share: float = 1.0  # fraction of the users to sample, if the dataset records users
    user_test: float = 0.0  # fraction of each user's samples that goes to the global test set
    B: int = 64  # batch size in the paper; the default of fl_scene.B
    epochs: int = 30  # centralized training epochs in the paper; the default of study.epochs
    authors_lr: float = "${model.authors_lr}"  # type: ignore[assignment] # lr of the released code

    def __post_init__(self) -> None:
        self.check_name()
        is_shape = len(self.shape) == 3 and min(self.shape) > 0
        require(is_shape, "dataset.shape", "channels, height, width", self.shape)
        channels = self.shape[0]
        require(len(self.mean) == channels, "dataset.mean", f"{channels} numbers, one per channel", self.mean)
        require(len(self.std) == channels, "dataset.std", f"{channels} numbers, one per channel", self.std)
        require(all(value > 0 for value in self.std), "dataset.std", "above 0", self.std)
        require(self.crop_padding >= 0, "dataset.crop_padding", "at least 0", self.crop_padding)
        for setting in ("samples", "test_samples"):
            value = getattr(self, setting)
            require(value is None or value >= 1, f"dataset.{setting}", "at least 1, or null for all", value)
        require(0 < self.user_share <= 1, "dataset.user_share", "in (0, 1]", self.user_share)
        require(0 <= self.user_test < 1, "dataset.user_test", "in [0, 1)", self.user_test)

    def check_name(self) -> None:
        require_choice("dataset.name", self.name, (*SOURCES, *BUILT_IN))

    @property
    def is_available(self) -> bool:
        """Whether `load` finds the dataset without downloading it."""
        return self.name in BUILT_IN or has_files(SOURCES[self.name], Path(self.root).expanduser())

    def read(self) -> DatasetSplits:
        """All images of the dataset, downloaded if needed."""
        return load_dataset(self.name, self.root, self.verify)

    def load(self, seed: int) -> DatasetSplits:
        """Load the dataset; the seed draws subsets, users and what they hold out."""
        data = self.read()
        shape = list(data.train.x.shape[1:])
        if shape != self.shape:
            raise DataError(f"dataset.shape must be {shape}, the image shape of {self.name}, got {self.shape}")
        if not len(data.train):
            raise DataError(f"dataset={self.name} has no training images in dataset.root={self.root}")
        if data.classes > self.classes:
            rule = f"at least {data.classes}, the number of classes in {self.name}"
            raise DataError(f"dataset.classes must be {rule}, got {self.classes}")
        drawn = draw_users(data, self.user_share, seed)
        if data.users:
            paper = f"; the paper has {SOURCES[self.name].users:,} in total" if self.name in SOURCES else ""
            print_status("users", f"{len(drawn.users):,} drawn from {len(data.users):,}{paper}")
        data = hold_out(drawn, self.user_test, seed)
        if not len(data.test):
            raise DataError(f"dataset.user_test must be large enough for a test set, got {self.user_test}")
        if data.users:
            rule = "null for a dataset of users, of whom dataset.user_share draws some"
            require(self.samples is None, "dataset.samples", rule, self.samples)
        train = draw_subset(data.train, "dataset.samples", self.samples, seed)
        test = draw_subset(data.test, "dataset.test_samples", self.test_samples, seed)
        return DatasetSplits(train, test, data.users)

    def transform(self, device: torch.device) -> ImageTransform:
        return ImageTransform(self.mean, self.std, self.crop_padding, self.flip, device)
