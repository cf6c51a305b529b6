"""SVHN, cropped digits (Netzer et al., 2011): two MATLAB files."""

import io
import re

import torch

from fedpan_exp.data.download import Download
from fedpan_exp.data.files import File, Files, archive, unreadable
from fedpan_exp.data.images import DatasetSplits, ImageTensors, label_tensor
from fedpan_exp.data.source import Source
from fedpan_exp.system.errors import DataError

CLASSES = 10
FILES = ("train_32x32.mat", "test_32x32.mat")  # the paper does not use "extra"
PATTERN = re.compile(r"(train_32x32\.mat|test_32x32\.mat)(\.gz|\.xz)?$")


def _read(files: Files) -> DatasetSplits:
    by_name = {match.group(1): file for match, file in files.matching(PATTERN)}
    files.require(FILES, by_name)
    train, test = (_split(by_name[name]) for name in FILES)
    return DatasetSplits(train, test)


def _split(file: File) -> ImageTensors:
    from scipy.io import loadmat  # slow import, only needed here

    try:
        content = loadmat(io.BytesIO(file.read()))
        x = torch.from_numpy(content["X"]).permute(3, 2, 0, 1).contiguous()  # from [H, W, C, N]
        y = content["y"].ravel().astype("int64")
    except DataError:
        raise
    except Exception as error:  # scipy raises all kinds of exceptions on damaged files
        raise unreadable(file.name, error) from None
    y[y == CLASSES] = 0  # MATLAB counts from 1: digit 0 is class 10
    return ImageTensors(x, label_tensor(y, CLASSES, file.name))


def _downloads() -> list[Download]:
    from torchvision.datasets import SVHN

    return [Download(md5, (url,)) for url, _, md5 in (SVHN.split_list[split] for split in ("train", "test"))]


SVHN = Source(
    name="svhn",
    search_dirs=("svhn", "SVHN"),
    files=PATTERN,
    archives=archive("svhn"),
    read=_read,
    page="http://ufldl.stanford.edu/housenumbers",
    licence="non-commercial use only",
    counts=(73_257, 26_032),
    image_bytes=3 * 32 * 32,
    downloads=_downloads,
)
