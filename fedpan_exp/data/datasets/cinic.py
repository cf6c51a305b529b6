"""CINIC-10 (Darlow et al., 2018): 32x32 images from CIFAR-10 and ImageNet, one folder per class.

Its validation set, a third of the images, is not used, as in the paper.
"""

import re

from torch import Tensor

from fedpan_exp.data.decode import ImageKey, decode
from fedpan_exp.data.download import Download
from fedpan_exp.data.files import Files, archive
from fedpan_exp.data.images import DatasetSplits, ImageTensors, label_tensor
from fedpan_exp.data.source import Source
from fedpan_exp.system.errors import DataError, listed

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
COUNTS, SIZE = (90_000, 90_000), 32
PATTERN = re.compile(rf"(train|test)/({'|'.join(CLASSES)})/([^/]+\.png)$")


def _read(files: Files) -> DatasetSplits:
    images = ((ImageKey(*match.groups()), file) for match, file in files.matching(PATTERN))
    splits = decode(images, SIZE, "decode cinic10", files.count(sum(COUNTS)))
    missing = [split for split in ("train", "test") if split not in splits]
    if missing:
        raise DataError(f"{files.folder} lacks the folder {listed(missing)}, or its class folders of PNGs; add them")
    train, test = (_split(*splits[split], str(files.folder)) for split in ("train", "test"))
    return DatasetSplits(train, test)


def _split(keys: list[ImageKey], x: Tensor, folder: str) -> ImageTensors:
    return ImageTensors(x, label_tensor([CLASSES.index(key.label) for key in keys], len(CLASSES), folder))


CINIC10 = Source(
    name="cinic10",
    search_dirs=("CINIC-10", "cinic10", "cinic-10", "CINIC10"),
    files=PATTERN,
    archives=archive("CINIC-?10"),
    read=_read,
    page="https://datashare.ed.ac.uk/handle/10283/3192",
    licence="CC BY 4.0",
    counts=COUNTS,
    image_bytes=3 * 32 * 32,
    downloads=lambda: [
        Download(
            "6ee4d0c996905fe93221de577967a372",
            ("https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz",),
        )
    ],
)
