"""Splits in files: our own JSON, indices by id as in flwr-datasets, FL-bench's partition.pkl, PFLlib's folder.

Ours names the data it belongs to. flwr-datasets' `partition_id_to_indices` is a JSON object. FL-bench and PFLlib pool
the training and the test images, in this order, and give each client a training and a test part.
"""

import io
import json
import pickle
from collections.abc import Sequence
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedpan_exp.data.array_pickle import unpickle_arrays
from fedpan_exp.data.images import DatasetSplits, ImageTensors
from fedpan_exp.data.partition import Split
from fedpan_exp.data.split_pfllib import is_pfllib, read_pfllib, write_pfllib
from fedpan_exp.system.atomic_io import atomic_write, write_json
from fedpan_exp.system.errors import ConfigError, first_line

FORMATS = ("fedpan_exp", "flwr", "fl_bench", "pfllib")


def file_hash(path: Path) -> str:
    """A hash of the content of a split: of a file, or of all files of a folder."""
    try:
        files = sorted(path.rglob("*.npz")) if is_pfllib(path) else [path]
        digest = blake2b(digest_size=4)
        for file in files:
            digest.update(file.read_bytes())
        return digest.hexdigest()
    except OSError as error:
        raise ConfigError(f"fl_scene.file must be a file that can be read, got {path} ({first_line(error)})") from None


def write_split(folder: Path, data: DatasetSplits, split: Split, seed: int, kind: str = "fedpan_exp") -> Path:
    """Write a split of the training images in one of FORMATS; return the path of the file."""
    if kind == "pfllib":
        write_pfllib(folder / "pfllib", data, split.parts, torch.arange(len(data.test)).tensor_split(len(split.parts)))
        return folder / "pfllib"
    if kind == "fl_bench":
        path = folder / "partition.pkl"
        content = _fl_bench(split.parts, data)
        atomic_write(path, lambda temporary: temporary.write_bytes(pickle.dumps(content)))
        return path
    parts = [part.tolist() for part in split.parts]
    path = folder / "split.json"
    if kind == "flwr":
        write_json(path, {str(k): part for k, part in enumerate(parts)})
    else:
        left_out = len(data.train) - sum(map(len, parts))
        write_json(path, {"data": _digest(data.train), "seed": seed, "left_out": left_out, "clients": parts})
    return path


def read_split(path: Path, data: DatasetSplits, withheld: int = 0) -> tuple[DatasetSplits, Split]:
    """Read a split in any format; return it with the data that its indices refer to.

    `withheld` training images are not in `data` (fl_scene.reserve), for which only our own format accounts.
    """
    file_hash(path)  # fails if there is no such file
    content = None if is_pfllib(path) else _unpickle(path) if path.suffix == ".pkl" else _json(path)
    if withheld and not (isinstance(content, dict) and "clients" in content):
        raise ConfigError(
            f"fl_scene.reserve must be 0 with a split whose indices refer to all training images, such as {path}"
        )
    if content is None:
        return _with_pooled(path, *read_pfllib(path, data), data)
    if isinstance(content, dict) and "data_indices" in content:
        return _read_fl_bench(path, content["data_indices"], data)
    if not isinstance(content, dict):
        raise _invalid(path, f"a JSON {type(content).__name__}")
    if "clients" in content:
        if content.get("data") != _digest(data.train):
            raise ConfigError(f"fl_scene.file must be a split of these training images, got {path}, of other images")
        parts = _parts(path, content["clients"], len(data.train), content.get("left_out", 0))
    else:
        if sorted(content) != sorted(map(str, range(len(content)))):
            raise _invalid(path, f"the keys {', '.join(map(str, list(content)[:3]))} ...")
        parts = _parts(path, [content[str(k)] for k in range(len(content))], len(data.train))
    return data, Split(parts)


def _parts(path: Path, clients: Any, samples: int, left_out: int | None = 0) -> list[Tensor]:
    """Check that every sample is at one client. `left_out` samples are at none; None: any number."""
    try:
        parts = [torch.from_numpy(np.sort(np.asarray(part, np.int64).reshape(-1))) for part in clients]
    except (TypeError, ValueError, OverflowError):
        raise _invalid(path, "clients that are not lists of whole numbers") from None
    if not parts or not all(map(len, parts)):
        raise _invalid(path, "a client without samples" if parts else "no clients")
    indices = torch.cat(parts)
    if indices.min() < 0 or indices.max() >= samples:
        wrong = int(indices.max()) if indices.max() >= samples else int(indices.min())
        raise _invalid(path, f"the index {wrong:,} for {samples:,} samples")
    counts = indices.bincount(minlength=samples)
    if counts.max() > 1:
        raise _invalid(path, f"the index {int(counts.argmax()):,} twice")
    missing = int((counts == 0).sum())
    if left_out is not None and missing != left_out:
        raise _invalid(path, f"no client for the index {int((counts == 0).nonzero()[0]):,} and {missing:,} in all")
    return parts


def _fl_bench(parts: Sequence[Tensor], data: DatasetSplits) -> dict[str, Any]:
    """The test images are divided evenly: FL-bench tests clients, and every image belongs to one."""
    clients = len(parts)
    test = torch.arange(len(data.train), len(data.train) + len(data.test)).tensor_split(clients)
    none = np.zeros(0, np.int64)
    everyone = list(range(clients))
    return {
        "separation": {"train": everyone, "val": [], "test": everyone, "total": clients},
        "data_indices": [
            {"train": part.numpy(), "val": none, "test": own.numpy()} for part, own in zip(parts, test, strict=True)
        ],
    }


def _read_fl_bench(path: Path, clients: Any, data: DatasetSplits) -> tuple[DatasetSplits, Split]:
    is_valid = isinstance(clients, list) and all(isinstance(c, dict) and {"train", "test"} <= c.keys() for c in clients)
    if not is_valid:
        raise _invalid(path, "data_indices without train and test")
    train = [[*client["train"], *client.get("val", ())] for client in clients]
    train = [part for part in train if part]  # FL-bench may divide by users: then some clients are only tested
    return _with_pooled(path, train, [client["test"] for client in clients], data)


def _with_pooled(
    path: Path, train: Sequence[Any], test: Sequence[Any], data: DatasetSplits
) -> tuple[DatasetSplits, Split]:
    """Indices of the pooled images: the clients' training parts, and all test parts as the global test set."""
    pooled = ImageTensors(torch.cat([data.train.x, data.test.x]), torch.cat([data.train.y, data.test.y]))
    tested = [index for part in test for index in part]
    together = _parts(path, [*train, tested], len(pooled), left_out=None)
    return DatasetSplits(pooled, pooled[together.pop()]), Split(together)


def _digest(images: ImageTensors) -> str:
    digest = sha256()
    for tensor in (images.x, images.y):
        digest.update(np.ascontiguousarray(tensor.numpy()).data)
    return digest.hexdigest()


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"fl_scene.file must be a JSON or .pkl file, or a folder of PFLlib, got {path} ({first_line(error)})"
        ) from None


def _unpickle(path: Path) -> Any:
    try:
        return unpickle_arrays(io.BytesIO(path.read_bytes()))
    except Exception as error:  # a damaged pickle raises many kinds
        raise ConfigError(f"fl_scene.file must be FL-bench's partition.pkl, got {path} ({first_line(error)})") from None


def _invalid(path: Path, got: str) -> ConfigError:
    return ConfigError(f"fl_scene.file must have every sample at one client, got {got} in {path}")
