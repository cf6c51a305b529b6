"""Images and labels in memory, as they are on disk: bytes."""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor


@dataclass
class Images:
    """One split."""

    x: Tensor  # uint8 [N, C, H, W]
    y: Tensor  # int64 [N]
    users: Tensor | None = None  # int64 [N]: who made each sample, where the dataset knows

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device) -> "Images":
        return Images(self.x.to(device), self.y.to(device), self.users)


@dataclass
class Data:
    train: Images
    test: Images

    def tensors(self) -> dict[str, Tensor]:
        return {
            "train_x": self.train.x,
            "train_y": self.train.y,
            "test_x": self.test.x,
            "test_y": self.test.y,
        }

    @classmethod
    def of(cls, tensors: dict[str, Tensor]) -> "Data":
        return cls(Images(tensors["train_x"], tensors["train_y"]), Images(tensors["test_x"], tensors["test_y"]))

    def digest(self) -> str:
        """The same whatever files the tensors were read from."""
        digest = sha256()
        for tensor in self.tensors().values():
            digest.update(np.ascontiguousarray(tensor.numpy()).data)
        return digest.hexdigest()
