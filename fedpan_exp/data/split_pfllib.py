"""Splits as PFLlib has them: a folder with train/0.npz, test/0.npz, ..., which hold each client's images and labels.

PFLlib scales pixels to [-1, 1], pools the training and the test images, and tests each client on a part of its own.
"""

import io
import shutil
import zipfile
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedpan_exp.data.array_pickle import unpickle_arrays
from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.system.atomic_io import atomic_write, flush_to_disk, write_json
from fedpan_exp.system.errors import ConfigError, first_line

Clients = list[list[int]]


def is_pfllib(path: Path) -> bool:
    return (path / "train" / "0.npz").is_file()


def write_pfllib(folder: Path, data: DatasetSplits, parts: Sequence[Tensor], test_parts: Sequence[Tensor]) -> None:
    """Write one file per client and part; config.json, without which PFLlib sees no dataset, comes last."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, images, indices in (("train", data.train, parts), ("test", data.test, test_parts)):
        (folder / name).mkdir(parents=True)
        for k, index in enumerate(indices):
            content: Any = {"x": _scaled(images.x[index]), "y": images.y[index].numpy()}
            atomic_write(folder / name / f"{k}.npz", partial(np.savez_compressed, data=content))
    flush_to_disk(folder)
    write_json(folder / "config.json", _config(data, parts))


def read_pfllib(folder: Path, data: DatasetSplits) -> tuple[Clients, Clients]:
    """Find each client's images in the training and test images; return their training and test indices.

    Indices are those of the pooled images: the training images, then the test images.
    """
    places = _places(data)
    clients = len(list((folder / "train").glob("*.npz")))
    train, test = ([_find(folder / part / f"{k}.npz", places) for k in range(clients)] for part in ("train", "test"))
    return train, test


def _find(path: Path, places: dict[bytes, list[int]]) -> list[int]:
    """The indices of the images of one client; of equal images, each index is given once."""
    x, y = _arrays(path)
    found = []
    for image, label in zip(_bytes(x), y.astype(np.int64), strict=True):
        indices = places.get(image.tobytes() + label.tobytes())
        if not indices:
            raise ConfigError(f"fl_scene.file must be a split of this dataset, got {path}, with other images")
        found.append(indices.pop(0))
    return found


def _places(data: DatasetSplits) -> dict[bytes, list[int]]:
    """Map the content of each image and its label to its indices in the pooled images."""
    places = defaultdict(list)
    pooled = [pair for part in (data.train, data.test) for pair in zip(part.x.numpy(), part.y.numpy(), strict=True)]
    for index, (image, label) in enumerate(pooled):
        places[image.tobytes() + label.tobytes()].append(index)
    return places


def _arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read x and y of the dict that the only array of the file is, without np.load, which would run any pickle."""
    try:
        file = io.BytesIO(zipfile.ZipFile(path).read("data.npy"))
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        content = unpickle_arrays(file)
        x, y = (np.asarray(content.item()[name]) for name in "xy")
        if len(x) != len(y):
            raise ValueError(f"it has {len(x):,} images and {len(y):,} labels")
        return x, y
    except Exception as error:  # a damaged archive or pickle raises many kinds
        raise ConfigError(f"fl_scene.file must be a folder of PFLlib, got {path} ({first_line(error)})") from None


def _scaled(images: Tensor) -> np.ndarray:
    return ((images.float() / 255 - 0.5) / 0.5).numpy()


def _bytes(x: np.ndarray) -> np.ndarray:
    return np.rint((x * 0.5 + 0.5) * 255).clip(0, 255).astype(np.uint8)


def _config(data: DatasetSplits, parts: Sequence[Tensor]) -> dict[str, Any]:
    """What PFLlib's own config.json says; its settings of a split do not apply to ours."""
    counts = [torch.unique(data.train.y[part], return_counts=True) for part in parts]
    return {
        "num_clients": len(parts),
        "num_classes": int(data.train.y.max()) + 1,
        "non_iid": True,
        "balance": False,
        "partition": "fedpan_exp",
        "Size of samples for labels in clients": [
            list(zip(labels.tolist(), sizes.tolist(), strict=True)) for labels, sizes in counts
        ],
        "alpha": None,
        "batch_size": None,
    }
