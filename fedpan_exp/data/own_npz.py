"""dataset=npz: arrays in one NumPy file, named as by Keras (x_train, ...) or MedMNIST (train_images, ...)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from fedpan_exp.data.images import DatasetSplits, ImageTensors
from fedpan_exp.system.errors import DataError, first_line

NAMES = {  # arrays of images and labels, for training and test
    "x_train, y_train": (("x_train", "y_train"), ("x_test", "y_test")),
    "train_images, train_labels": (("train_images", "train_labels"), ("test_images", "test_labels")),
    "x, y": (("x", "y"), ("", "")),
}


def read_npz(path: Path) -> DatasetSplits:
    """Read the images of a file; its `users` or `users_train`, if there are any, are the users of the samples."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError, EOFError, TypeError) as error:  # TypeError: an .npy file, which is one array
        raise DataError(f"dataset.root must be an .npz file, got {path} ({first_line(error)})") from None
    for train, test in NAMES.values():
        if all(name in arrays for name in train):
            if test[0] in arrays and test[1] not in arrays:
                raise DataError(f"{path} must have the labels {test[1]} of its images {test[0]}")
            images = _images(arrays, train, path)
            users = arrays.get("users_train", arrays.get("users"))
            names, ids = np.unique(users, return_inverse=True) if users is not None else (np.zeros(0), None)
            if ids is not None:
                if len(ids) != len(images):
                    raise DataError(f"{path} has {len(ids):,} users for {len(images):,} images; it must have one each")
                images.users = torch.from_numpy(ids.astype(np.int64))
            rest = _images(arrays, test, path) if test[0] in arrays else ImageTensors(images.x[:0], images.y[:0])
            if len(rest) and rest.x.shape[1:] != images.x.shape[1:]:
                raise DataError(f"{path} has test images of another shape than its training images")
            return DatasetSplits(images, rest, tuple(map(str, names)))
    raise DataError(f"{path} must have arrays named {' or '.join(NAMES)}, got {', '.join(arrays) or 'none'}")


def _images(arrays: Mapping[str, np.ndarray], names: tuple[str, str], path: Path) -> ImageTensors:
    """Images [N, H, W], [N, H, W, C] or [N, C, H, W] of bytes, or of numbers from 0 to 1."""
    x, y = (arrays[name] for name in names)
    y = y.squeeze(1) if y.ndim == 2 and y.shape[1] == 1 else y  # MedMNIST's labels are a column
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[3] in (1, 3) and x.shape[1] not in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.dtype.kind == "f" and x.size and x.min() >= 0 and x.max() <= 1:
        x = np.rint(x * 255).astype(np.uint8)
    if x.ndim != 4 or x.dtype != np.uint8 or y.shape != x.shape[:1] or y.dtype.kind not in "iu":
        got = f"{names[0]} {list(x.shape)} {x.dtype} and {names[1]} {list(y.shape)} {y.dtype}"
        raise DataError(
            f"{path} must have images [N, H, W, C] of bytes, or from 0 to 1, and whole labels [N], got {got}"
        )
    if len(y) and y.min() < 0:
        raise DataError(f"{path} must have labels from 0, got {y.min()} in {names[1]}")
    return ImageTensors(torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(y.astype(np.int64)))
