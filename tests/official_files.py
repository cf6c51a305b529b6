"""Write small files in exactly the official formats; return the tensors that must be read from them."""

import csv
import gzip
import io
import json
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scipy.io import savemat

from conftest import random_images
from fedpan_exp.data.datasets.cinic import CLASSES as CINIC_CLASSES
from fedpan_exp.data.datasets.mnist import FILES as IDX_FILES
from fedpan_exp.data.images import DatasetSplits, ImageTensors

RGB = (3, 32, 32)


def small(shape: tuple[int, int, int], classes: int, train: int = 60, test: int = 20) -> DatasetSplits:
    return DatasetSplits(random_images(train, shape, classes), random_images(test, shape, classes, seed=1))


def idx(values: torch.Tensor) -> bytes:
    return struct.pack(f">HBB{values.dim()}i", 0, 8, values.dim(), *values.shape) + bytes(values.flatten().tolist())


def write_idx(folder: Path, compressed: bool = False, data: DatasetSplits | None = None) -> DatasetSplits:
    data = data or small((1, 4, 4), 3, 20, 5)
    folder.mkdir(parents=True)
    tensors = [t for part in (data.train, data.test) for t in (part.x[:, 0], part.y)]
    for name, tensor in zip(IDX_FILES, tensors, strict=True):
        content = idx(tensor)
        path = folder / (f"{name}.gz" if compressed else name)
        path.write_bytes(gzip.compress(content) if compressed else content)
    return data


def write_cifar10(root: Path) -> DatasetSplits:
    data = small(RGB, 10)
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    batches = zip(data.train.x.chunk(5), data.train.y.chunk(5), strict=True)
    for number, (x, y) in enumerate(batches, start=1):
        _pickle(folder / f"data_batch_{number}", x, labels=y.tolist(), batch_label=f"training batch {number} of 5")
    _pickle(folder / "test_batch", data.test.x, labels=data.test.y.tolist(), batch_label="testing batch 1 of 1")
    with (folder / "batches.meta").open("wb") as file:
        pickle.dump({"label_names": list(CINIC_CLASSES)}, file, protocol=2)
    return data


def write_cifar100(root: Path) -> DatasetSplits:
    data = small(RGB, 100)
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    for name, part in {"train": data.train, "test": data.test}.items():
        _pickle(folder / name, part.x, fine_labels=part.y.tolist(), coarse_labels=(part.y % 20).tolist())
    with (folder / "meta").open("wb") as file:
        pickle.dump({"fine_label_names": [f"kind {i}" for i in range(100)]}, file, protocol=2)
    return data


def _pickle(path: Path, x: torch.Tensor, **entries: object) -> None:
    with path.open("wb") as file:
        names = [f"{i}.png" for i in range(len(x))]
        pickle.dump({"data": x.reshape(len(x), -1).numpy(), "filenames": names, **entries}, file, protocol=2)


def write_svhn(root: Path) -> DatasetSplits:
    data = small(RGB, 10)
    folder = root / "svhn"
    folder.mkdir(parents=True)
    for name, part in {"train": data.train, "test": data.test}.items():
        y = part.y.numpy().copy()
        y[y == 0] = 10
        content = {"X": part.x.permute(2, 3, 1, 0).numpy(), "y": y[:, None].astype(np.uint8)}
        savemat(folder / f"{name}_32x32.mat", content, do_compression=True)
    return data


def write_gtsrb(root: Path) -> DatasetSplits:
    """Training PPMs in class folders; test PPMs in one folder, with their labels in a table."""
    train, test = random_images(60, RGB, 43), random_images(20, RGB, 43, seed=1)
    train = train[train.y.argsort(stable=True)]  # in the order of the class folders
    images = root / "GTSRB" / "Final_Training" / "Images"
    for index, (x, y) in enumerate(zip(train.x, train.y.tolist(), strict=True)):
        folder = images / f"{y:05}"
        folder.mkdir(parents=True, exist_ok=True)
        _to_pil(x).save(folder / f"{index:05}_00000.ppm")
    test_dir = root / "GTSRB" / "Final_Test" / "Images"
    test_dir.mkdir(parents=True)
    rows = [("Filename", "Width", "Height", "Roi.X1", "Roi.Y1", "Roi.X2", "Roi.Y2", "ClassId")]
    for index, (x, y) in enumerate(zip(test.x, test.y.tolist(), strict=True)):
        _to_pil(x).save(test_dir / f"{index:05}.ppm")
        rows.append((f"{index:05}.ppm", "32", "32", "5", "5", "27", "27", str(y)))
    for table, width in (("GTSRB/GT-final_test.csv", 8), ("GTSRB/Final_Test/Images/GT-final_test.test.csv", 7)):
        with (root / table).open("w", newline="") as file:
            csv.writer(file, delimiter=";").writerows(row[:width] for row in rows)
    return DatasetSplits(train, test)


def write_cinic(root: Path) -> DatasetSplits:
    parts = []
    for seed, split in enumerate(("train", "test", "valid")):
        part = random_images(40, RGB, 10, seed)
        order = part.y.argsort(stable=True)
        for index in order.tolist():
            folder = root / "CINIC-10" / split / CINIC_CLASSES[part.y[index]]
            folder.mkdir(parents=True, exist_ok=True)
            _to_pil(part.x[index]).save(folder / f"cifar10-{split}-{index:05}.png")
        parts.append(part[order])
    return DatasetSplits(parts[0], parts[1])


def _to_pil(x: torch.Tensor) -> Image.Image:
    return Image.fromarray(x.permute(1, 2, 0).numpy())


def leaf_json(samples: dict[str, ImageTensors]) -> dict:
    user_data = {
        user: {"x": (part.x.flatten(1) / 255).tolist(), "y": part.y.tolist()} for user, part in samples.items()
    }
    return {"users": list(samples), "num_samples": [len(part) for part in samples.values()], "user_data": user_data}


def write_femnist(root: Path, users: int = 10, samples: int = 20) -> DatasetSplits:
    """Test and train files as LEAF writes them; the tensors have the samples of both, sorted by user."""
    parts = {f"f{user:04}_{user:02}": random_images(samples, (1, 28, 28), 62, seed=user) for user in range(users)}
    cut = samples // 10
    for name, selection in {"test": slice(0, cut), "train": slice(cut, None)}.items():
        folder = root / "femnist" / "data" / name
        folder.mkdir(parents=True)
        content = leaf_json({user: part[torch.arange(samples)[selection]] for user, part in parts.items()})
        (folder / f"all_data_0_niid_0_keep_0_{name}_9.json").write_text(json.dumps(content))
    x, y = (torch.cat([getattr(part, letter) for part in parts.values()]) for letter in "xy")
    user_ids = torch.arange(users).repeat_interleave(samples)
    return DatasetSplits(ImageTensors(x, y, user_ids), ImageTensors(x[:0], y[:0], user_ids[:0]), tuple(parts))


WRITERS = {
    "cifar10": write_cifar10,
    "cifar100": write_cifar100,
    "svhn": write_svhn,
    "gtsrb": write_gtsrb,
    "cinic10": write_cinic,
    "femnist": write_femnist,
}


def pack(folder: Path, archive: Path) -> None:
    """Pack all files below `folder` into a zip or tar, in reverse order of their names."""
    paths = sorted((path for path in folder.rglob("*") if path.is_file()), reverse=True)
    if archive.suffix.lower() == ".zip":
        with zipfile.ZipFile(archive, "w") as file:
            for path in paths:
                file.write(path, path.relative_to(folder))
    else:
        with tarfile.open(archive, "w:gz") as file:
            for path in paths:
                file.add(path, path.relative_to(folder))


def tar_with(archive: Path, member: tarfile.TarInfo, content: bytes = b"") -> None:
    member.size = len(content)
    with tarfile.open(archive, "w:gz") as file:
        file.addfile(member, io.BytesIO(content))
