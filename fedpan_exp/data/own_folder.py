"""dataset=folder: image files in one folder per class, below train/ and test/ or directly below the root."""

import re
from pathlib import Path

import torch
from torch import Tensor

from fedpan_exp.data.decode import ImageKey, decode, shorter_side
from fedpan_exp.data.files import EmptyDatasetFolder, File, Files
from fedpan_exp.data.images import DatasetSplits, ImageTensors
from fedpan_exp.data.source import Source
from fedpan_exp.data.store import locate
from fedpan_exp.system.errors import DataError, listed

IMAGE = re.compile(r"\.(?:png|jpe?g|bmp|gif|webp|tiff?|ppm|pgm)$", re.IGNORECASE)
SPLITS = ("train", "test")


def read_folder(root: Path, size: int) -> DatasetSplits:
    """Read images resized to size x size, cached next to the root. Size 0: the shorter side of the first image."""
    root = root.resolve()
    if not root.is_dir():
        raise DataError(f"dataset.root must be a folder with one folder of images per class, got {root}")
    source = Source(
        name=f"{root.name}-{size}" if size else root.name,
        search_dirs=(root.name,),
        files=IMAGE,
        archives=re.compile(r"(?!)"),  # none
        read=lambda files: _read(files, size),
        page="",
        licence="",
    )
    try:
        located = locate(source, root.parent)
    except EmptyDatasetFolder:
        located = None
    if located is None:
        raise DataError(f"dataset.root must have one folder of images per class, got no image in {root}")
    return located.data


def _read(files: Files, size: int) -> DatasetSplits:
    keys = [_key(path.relative_to(files.folder), files.folder) for path in files.paths]
    classes = sorted({key.label for key in keys if key.split != "test"})
    if len(classes) < 2:
        got = listed(classes) if classes else "none"
        raise DataError(
            f"dataset.root must have images of at least 2 classes for training, got {got} in {files.folder}"
        )
    if unknown := sorted({key.label for key in keys} - set(classes)):
        raise DataError(f"{files.folder / 'test'} has {listed(unknown)}, which train does not have; add or remove it")
    images = ((key, File(str(path), path)) for key, path in zip(keys, files.paths, strict=True))
    splits = decode(
        images,
        size or shorter_side(File(str(files.paths[0]), files.paths[0])),
        f"decode {files.folder.name}",
        len(keys),
    )
    is_gray = all(bool((x[:, :1] == x).all()) for _, x in splits.values())
    parts = {split: _images(*splits[split], classes, is_gray) for split in splits}
    train = parts["train"]
    return DatasetSplits(train, parts.get("test", ImageTensors(train.x[:0], train.y[:0])))


def _key(path: Path, root: Path) -> ImageKey:
    """train/cat/1.png or cat/1.png"""
    split, *rest = path.parts if path.parts[0] in SPLITS and len(path.parts) > 2 else ("train", *path.parts)
    if len(rest) != 2:
        raise DataError(f"dataset.root must have folders train/<class> and test/<class>, or <class>, got {root / path}")
    return ImageKey(split, *rest)


def _images(keys: list[ImageKey], x: Tensor, classes: list[str], is_gray: bool) -> ImageTensors:
    y = torch.tensor([classes.index(key.label) for key in keys])
    return ImageTensors(x[:, :1].contiguous() if is_gray else x, y)
