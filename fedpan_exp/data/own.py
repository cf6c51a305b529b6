"""Images of the user's own: shape, classes, mean and std follow from them, and so does the identity of a run."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

from fedpan_exp.data.dataset import LOADERS, DatasetSettings
from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.data.own_folder import read_folder
from fedpan_exp.data.own_hf import Columns, read_hf
from fedpan_exp.data.own_npz import read_npz
from fedpan_exp.system.errors import ConfigError, DataError, first_line, require
from fedpan_exp.system.rng import rng


class Facts(NamedTuple):
    shape: list[int]
    classes: int
    mean: list[float]
    std: list[float]
    digest: str


@dataclass
class OwnData(DatasetSettings):
    """Where `shape`, `classes`, `mean` and `std` are not set, they are those of the training images."""

    test_share: float = 0.2  # fraction of the images for the global test set, if there is no test set
    digest: str = ""  # SHA-256 of the images

    def __post_init__(self) -> None:
        require(0 < self.test_share < 1, "dataset.test_share", "in (0, 1)", self.test_share)
        facts = _facts(self.read(), self.name)
        require(self.digest in ("", facts.digest), "dataset.digest", f"{facts.digest}, that of the images", self.digest)
        for name, value in facts._asdict().items():
            if not getattr(self, name):
                setattr(self, name, value)
        super().__post_init__()

    def check_name(self) -> None:
        require(bool(self.name), "dataset.name", "a name", "none")

    @property
    def is_available(self) -> bool:
        return True

    def read(self) -> DatasetSplits:
        data = self.read_images(Path(self.root).expanduser())
        if not len(data.test):
            data = _with_test_set(data, self.test_share)
        return data

    def read_images(self, root: Path) -> DatasetSplits:
        """All images; the test set may be empty."""
        raise ConfigError(f"dataset must be one of the options of the group dataset, got {self.name or 'none'}")


@dataclass
class FolderData(OwnData):
    name: str = "folder"
    size: int = 0

    def read_images(self, root: Path) -> DatasetSplits:
        require(self.size >= 0, "dataset.size", "at least 0", self.size)
        return read_folder(root, self.size)


@dataclass
class NpzData(OwnData):
    name: str = "npz"

    def read_images(self, root: Path) -> DatasetSplits:
        return read_npz(root)


@dataclass
class HuggingFaceData(OwnData):
    name: str = "hf"
    hf: str | None = None
    config: str | None = None
    image: str | None = None
    label: str | None = None
    user: str | None = None
    size: int = 0

    def read_images(self, root: Path) -> DatasetSplits:
        require(bool(self.hf), "dataset.hf", "a dataset of the Hugging Face Hub, or a path", "none")
        require(self.size >= 0, "dataset.size", "at least 0", self.size)
        return read_hf(str(self.hf), self.config, Columns(self.image, self.label, self.user), self.size, root)


@dataclass
class PluginData(OwnData):
    """The dataset of a plugin."""

    root: str = "${oc.env:FEDPAN_DATA,data}"

    def read_images(self, root: Path) -> DatasetSplits:
        return _load(LOADERS[self.name], self.name, root)


OWN_DATA: dict[str, type[OwnData]] = {
    "folder": FolderData,
    "npz": NpzData,
    "hf": HuggingFaceData,
    "plugin": PluginData,
}


@lru_cache(maxsize=2)
def _load(loader: Callable[[Path], DatasetSplits], name: str, root: Path) -> DatasetSplits:
    """Call the loader of a plugin once, and check what it returns."""
    try:
        data = loader(root)
    except Exception as error:  # a plugin may raise anything
        file = f": {error.filename}" if isinstance(error, OSError) and error.filename else ""
        raise DataError(f"dataset={name} cannot be loaded: {type(error).__name__}: {first_line(error)}{file}") from None
    if not isinstance(data, DatasetSplits):
        raise DataError(f"dataset={name} must be loaded as DatasetSplits, got {type(data).__name__}")
    for split in (data.train, data.test):
        is_valid = split.x.dtype == torch.uint8 and split.x.dim() == 4 and split.y.dtype == torch.int64
        if not is_valid or len(split.x) != len(split.y):
            got = f"{list(split.x.shape)} {split.x.dtype}, {list(split.y.shape)} {split.y.dtype}"
            raise DataError(f"dataset={name} must have uint8 images [N, C, H, W] and int64 labels [N], got {got}")
    return data


def _with_test_set(data: DatasetSplits, fraction: float) -> DatasetSplits:
    """Move a fraction of the images to the test set: the same ones in every run, whatever its seed."""
    order = torch.randperm(len(data.train), generator=rng(0, "own test set"))
    size = round(fraction * len(data.train))
    if not 0 < size < len(data.train):
        raise DataError(f"dataset.test_share must leave images for training and test, got {fraction} of {len(order)}")
    return replace(data, train=data.train[order[size:].sort().values], test=data.train[order[:size].sort().values])


def _facts(data: DatasetSplits, name: str) -> Facts:
    shape, test_shape = ([*split.x.shape[1:]] for split in (data.train, data.test))
    if shape != test_shape:
        raise DataError(f"dataset={name} must have test images of shape {shape}, as for training, got {test_shape}")
    if not len(data.train):
        raise DataError(f"dataset={name} must have training images, got none")
    lowest = min(int(split.y.min()) for split in (data.train, data.test))
    if lowest < 0:
        raise DataError(f"dataset={name} must have labels from 0, got {lowest}")
    pixels = data.train.x.transpose(0, 1).flatten(1)
    histograms = [torch.bincount(channel, minlength=256).double() for channel in pixels]
    values = torch.arange(256).double() / 255
    means = [float((counts * values).sum() / counts.sum()) for counts in histograms]
    variances = [
        float((counts * (values - mean) ** 2).sum() / counts.sum())
        for counts, mean in zip(histograms, means, strict=True)
    ]
    if data.train.y.max() < 1:
        raise DataError("dataset.classes must be at least 2, got 1 in the training images")
    std = [round(variance**0.5, 4) or 1.0 for variance in variances]  # 1: an image of one colour
    return Facts(shape, data.classes, [round(mean, 4) for mean in means], std, data.digest())
