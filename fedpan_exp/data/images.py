"""Images and labels in memory as uint8 and int64 tensors."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fedpan_exp.system.errors import DataError


@dataclass
class ImageTensors:
    """One split of a dataset."""

    x: Tensor  # uint8 [N, C, H, W]
    y: Tensor  # int64 [N]
    users: Tensor | None = None  # int64 [N]: index of the user who made each sample, if the dataset records users

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Tensor) -> "ImageTensors":
        return ImageTensors(self.x[index], self.y[index], None if self.users is None else self.users[index])

    def to(self, device: torch.device) -> "ImageTensors":
        return ImageTensors(self.x.to(device), self.y.to(device), None if self.users is None else self.users.to(device))


@dataclass
class DatasetSplits:
    train: ImageTensors
    test: ImageTensors
    users: tuple[str, ...] = ()  # user names, indexed by ImageTensors.users

    @property
    def classes(self) -> int:
        """Labels are from 0 to classes - 1. The test set counts too: few images may have left a label to it alone."""
        return max(int(split.y.max()) + 1 for split in (self.train, self.test) if len(split))

    def tensors(self) -> dict[str, Tensor]:
        parts = {"train": self.train, "test": self.test}
        tensors = {f"{name}_{letter}": getattr(part, letter) for name, part in parts.items() for letter in "xy"}
        users = {f"{name}_users": part.users for name, part in parts.items() if part.users is not None}
        return tensors | users

    def metadata(self) -> dict[str, str]:
        """What is saved in addition to the tensors: the user names."""
        return {"users": json.dumps(self.users)} if self.users else {}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> "DatasetSplits":
        train, test = (
            ImageTensors(tensors[f"{part}_x"], tensors[f"{part}_y"], tensors.get(f"{part}_users"))
            for part in ("train", "test")
        )
        return cls(train, test, tuple(json.loads(metadata.get("users", "[]"))))

    def digest(self) -> str:
        """SHA-256 of the tensors, whatever files they were read from."""
        digest = sha256()
        for tensor in self.tensors().values():
            digest.update(np.ascontiguousarray(tensor.numpy()).data)
        return digest.hexdigest()


def label_tensor(values: ArrayLike, classes: int, file: str) -> Tensor:
    """Convert labels read from a file to int64 [N]; reject values outside 0 to classes - 1."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{file} has labels that are not a list of whole numbers; replace it")
    labels = torch.from_numpy(array.astype(np.int64))
    invalid = labels[(labels < 0) | (labels >= classes)]
    if len(invalid):
        raise DataError(f"{file} has the label {int(invalid[0])}, but labels range from 0 to {classes - 1}; replace it")
    return labels


def channels_first(images: np.ndarray) -> Tensor:
    """[N, H, W, C] to [N, C, H, W]."""
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
