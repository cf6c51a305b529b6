"""dataset=hf: images of the Hugging Face Hub, or on disk in a form that its library `datasets` reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fedpan_exp.data.decode import ImageKey, decode, shorter_side
from fedpan_exp.data.files import File
from fedpan_exp.data.images import DatasetSplits, ImageTensors
from fedpan_exp.data.store import load_cached
from fedpan_exp.system.errors import ConfigError, DataError, first_line, listed

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

TEST_SPLITS = ("test", "validation", "valid")  # the first that the dataset has is the test set


@dataclass(frozen=True)
class Columns:
    """Names of columns; None: the only one of its kind."""

    image: str | None
    label: str | None
    user: str | None  # None: users are not known


def read_hf(name: str, config: str | None, columns: Columns, size: int, root: Path) -> DatasetSplits:
    """Read images resized to size x size, cached below the root. Size 0: the shorter side of the first image."""
    splits = {split: rows for split, rows in _open(name, config).items() if split in ("train", *TEST_SPLITS)}
    if "train" not in splits:
        raise DataError(f"dataset.hf must have a split train, got {listed(_open(name, config))} in {name}")
    test = next((split for split in TEST_SPLITS if split in splits), "")
    parts = {"train": splits["train"]} | ({"test": splits[test]} if test else {})
    columns = _resolve(parts["train"], columns, name)
    fingerprint = [(split, rows._fingerprint) for split, rows in parts.items()]
    key = sha256(repr((fingerprint, columns, size)).encode()).hexdigest()
    return load_cached(f"hf-{key[:8]}", root, key, lambda: _read(parts, columns, size, name))


@lru_cache(maxsize=2)
def _open(name: str, config: str | None) -> DatasetDict:
    """Open a dataset saved on disk, a folder or file of images or tables, or a name of the Hub, which is downloaded."""
    try:
        import datasets
        from datasets import load_dataset, load_from_disk  # fails where a folder of the user's is called datasets
    except ImportError:
        raise ConfigError('dataset=hf needs its package: pip install "fedpan_exp[hf]"') from None
    path = Path(name).expanduser()
    offline = not path.exists() and not _is_hub_reachable()
    with _without_progress_bars(), _offline() if offline else contextlib.nullcontext():
        try:
            if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
                opened = load_from_disk(str(path))
            elif path.is_file():
                opened = load_dataset(path.suffix.removeprefix("."), data_files=str(path))
            else:
                opened = load_dataset(str(path) if path.is_dir() else name, config)
        except Exception as error:  # no such dataset, several configurations, damaged files
            network = f"{datasets.config.HF_ENDPOINT} cannot be reached" if offline else first_line(error)
            raise DataError(
                f"dataset.hf must be a dataset of the Hugging Face Hub, or a path, got {name} ({network})"
            ) from None
    return opened if isinstance(opened, dict) else datasets.DatasetDict(train=opened)


def _is_hub_reachable() -> bool:
    """Ask once: without network, the library would retry every request for half a minute."""
    import datasets
    from huggingface_hub import get_session

    try:
        get_session().head(datasets.config.HF_ENDPOINT, timeout=10)
    except Exception:  # whatever its HTTP client raises
        return False
    return True


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """As with HF_HUB_OFFLINE=1, which the library reads when it is imported: use what was downloaded earlier."""
    import datasets
    from huggingface_hub import constants

    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


@contextlib.contextmanager
def _without_progress_bars() -> Iterator[None]:
    import datasets

    was_disabled = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not was_disabled:
            datasets.enable_progress_bars()


def _resolve(rows: Dataset, columns: Columns, name: str) -> Columns:
    """Name the columns of images and labels that are not named, and check those that are."""
    import datasets

    features = rows.features
    for setting, column in vars(columns).items():
        if column is not None and column not in features:
            raise ConfigError(f"dataset.{setting} must be a column of {name}, got {column}; it has {listed(features)}")
    images = [columns.image] if columns.image else _of_type(features, datasets.Image)
    labels = [columns.label] if columns.label else _of_type(features, datasets.ClassLabel)
    labels = labels or [column for column in ("label", "labels") if column in features]
    for setting, found in {"image": images, "label": labels}.items():
        if len(found) != 1:
            which = f"{listed(found)} could be" if found else f"none of {listed(features)} is"
            raise ConfigError(f"dataset.{setting} must name the column of the {setting}s in {name}: {which} it")
    if not isinstance(features[images[0]], datasets.Image):
        raise ConfigError(f"dataset.image must be a column of images, got {images[0]}, a column of other values")
    return Columns(images[0], labels[0], columns.user)


def _of_type(features: Mapping[str, Any], kind: type) -> list[str]:
    return [column for column, feature in features.items() if isinstance(feature, kind)]


def _read(parts: Mapping[str, Dataset], columns: Columns, size: int, name: str) -> DatasetSplits:
    images = {split: rows.cast_column(columns.image, _encoded()) for split, rows in parts.items()}
    files = [
        (ImageKey(split, "", f"{i:09}"), _file(row, f"image {i:,} of {split} in {name}"))
        for split, rows in images.items()
        for i, row in enumerate(rows[columns.image])
    ]
    if not files:
        raise DataError(f"dataset.hf must have images, got none in {name}")
    decoded = decode(files, size or shorter_side(files[0][1]), f"decode {name}", len(files))
    is_gray = all(bool((x[:, :1] == x).all()) for _, x in decoded.values())
    x = {split: pixels[:, :1].contiguous() if is_gray else pixels for split, (_, pixels) in decoded.items()}
    y = _labels(parts, str(columns.label), name)
    train = ImageTensors(x["train"], y["train"])
    users = parts["train"][columns.user] if columns.user else None
    names, ids = np.unique(np.array(users, dtype=str), return_inverse=True) if users is not None else ((), None)
    if ids is not None:
        train.users = torch.from_numpy(ids.astype(np.int64))
    test = ImageTensors(x["test"], y["test"]) if "test" in x else ImageTensors(train.x[:0], train.y[:0])
    return DatasetSplits(train, test, tuple(map(str, names)))


def _encoded() -> Any:
    """The type of a column of images that are not decoded by the library: ours does it on all cores, once."""
    import datasets

    return datasets.Image(decode=False)


def _file(row: Mapping[str, Any] | None, place: str) -> File:
    """An encoded image: its bytes, or the path of its file."""
    content = (row["bytes"] or (row["path"] and Path(row["path"]))) if row else None
    if not content:
        raise DataError(f"{place} is missing; remove its row")
    return File(place, content)


def _labels(parts: Mapping[str, Dataset], column: str, name: str) -> dict[str, torch.Tensor]:
    """Whole labels from 0; texts are numbered in alphabetical order."""
    values = {split: np.array(rows[column]) for split, rows in parts.items()}
    if all(array.dtype.kind == "U" for array in values.values()):
        classes = np.unique(values["train"])
        if unknown := sorted({*values.get("test", ())} - {*classes}):
            raise DataError(f"dataset.label must have the same labels for training, got {unknown[0]} in test of {name}")
        values = {split: np.searchsorted(classes, array) for split, array in values.items()}
    for split, array in values.items():
        if array.ndim != 1 or array.dtype.kind not in "iu" or array.min() < 0:
            got = f"{array.min()}" if array.dtype.kind in "iu" else f"{array.dtype}"
            raise DataError(
                f"dataset.label must be a column of labels from 0, got {got} in {column} of {split}, {name}"
            )
    return {split: torch.from_numpy(array.astype(np.int64)) for split, array in values.items()}
