"""Images and labels in memory, as they are on disk: bytes."""

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
    """One split."""

    x: Tensor  # uint8 [N, C, H, W]
    y: Tensor  # int64 [N]
    users: Tensor | None = None  # int64 [N]: who made each sample, where the dataset knows

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, chosen: Tensor) -> "ImageTensors":
        return ImageTensors(self.x[chosen], self.y[chosen], None if self.users is None else self.users[chosen])

    def to(self, device: torch.device) -> "ImageTensors":
        return ImageTensors(self.x.to(device), self.y.to(device), self.users)


@dataclass
class DatasetSplits:
    train: ImageTensors
    test: ImageTensors
    users: tuple[str, ...] = ()  # their names; Images.users counts along them

    def tensors(self) -> dict[str, Tensor]:
        parts = {"train": self.train, "test": self.test}
        tensors = {f"{name}_{letter}": getattr(part, letter) for name, part in parts.items() for letter in "xy"}
        users = {f"{name}_users": part.users for name, part in parts.items() if part.users is not None}
        return tensors | users

    def notes(self) -> dict[str, str]:
        """What tensors cannot say."""
        return {"users": json.dumps(self.users)} if self.users else {}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> "DatasetSplits":
        train, test = (
            ImageTensors(tensors[f"{part}_x"], tensors[f"{part}_y"], tensors.get(f"{part}_users"))
            for part in ("train", "test")
        )
        return cls(train, test, tuple(json.loads(notes.get("users", "[]"))))

    def digest(self) -> str:
        """The same whatever files the tensors were read from."""
        digest = sha256()
        for tensor in self.tensors().values():
            digest.update(np.ascontiguousarray(tensor.numpy()).data)
        return digest.hexdigest()


def labels(values: ArrayLike, classes: int, file: str) -> Tensor:
    """Labels read from a file, checked."""
    numbers = np.asarray(values)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise DataError(f"{file} holds labels that are not whole numbers in a row; replace it")
    found = torch.from_numpy(numbers.astype(np.int64))
    wrong = found[(found < 0) | (found >= classes)]
    if len(wrong):
        raise DataError(f"{file} holds the label {int(wrong[0])}, but labels run from 0 to {classes - 1}; replace it")
    return found


def channels_first(images: np.ndarray) -> Tensor:
    """[N, H, W, C] as most files have it, to [N, C, H, W]."""
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
