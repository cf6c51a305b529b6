"""Readers of all datasets, on small files in the exact official formats and in the usual archives."""

import gzip
import json
import os
import pickle
import re
import shutil
import tarfile
from pathlib import Path

import numpy as np
import official_files
import pytest
from official_files import WRITERS, pack, write_idx

from fedpan_exp.data.dataset import SOURCES
from fedpan_exp.data.datasets.mnist import FILES, decode_idx
from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.system.atomic_io import read_json
from fedpan_exp.system.errors import DataError

ARCHIVE = {
    "cifar10": "cifar-10-python.tar.gz",
    "cifar100": "cifar-100-python.tar.gz",
    "svhn": "svhn.zip",
    "gtsrb": "GTSRB.zip",
    "cinic10": "CINIC-10.tar.gz",
    "femnist": "femnist.zip",
}


def read(name: str, root: Path) -> DatasetSplits:
    files = SOURCES[name].find_files(root)
    assert files is not None
    return SOURCES[name].read(files)


def same(one: DatasetSplits, other: DatasetSplits) -> bool:
    return one.users == other.users and one.digest() == other.digest()


@pytest.mark.parametrize("name", WRITERS)
def test_extracted_files(tmp_path, name):
    expected = WRITERS[name](tmp_path)
    assert same(read(name, tmp_path), expected)


@pytest.mark.parametrize("name", WRITERS)
def test_in_an_archive(tmp_path, name):
    expected = WRITERS[name](tmp_path / "extracted")
    pack(tmp_path / "extracted", tmp_path / ARCHIVE[name])
    assert same(read(name, tmp_path), expected)


@pytest.mark.parametrize("name", WRITERS)
def test_the_root_can_be_the_datasets_own_folder(tmp_path, name):
    expected = WRITERS[name](tmp_path)
    (folder,) = tmp_path.iterdir()
    assert same(read(name, folder), expected)


def test_archives_of_extracted_files_are_ignored(tmp_path):
    expected = official_files.write_cinic(tmp_path)
    pack(tmp_path, tmp_path / "CINIC-10.tar.gz")
    assert same(read("cinic10", tmp_path), expected)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("folder", ["MNIST/raw", "mnist"])
def test_idx_files_in_both_folders(tmp_path, compressed, folder):
    expected = write_idx(tmp_path / folder, compressed)
    assert same(read("mnist", tmp_path), expected)


def test_the_three_official_archives_of_gtsrb(tmp_path):
    expected = official_files.write_gtsrb(tmp_path / "extracted")
    (tmp_path / "gtsrb").mkdir()
    parts = {"Training_Images": "GTSRB/Final_Training", "Test_Images": "GTSRB/Final_Test", "Test_GT": "GTSRB"}
    for part, folder in parts.items():
        content = tmp_path / part
        if part == "Test_GT":
            content.mkdir()
            shutil.copy(tmp_path / "extracted/GTSRB/GT-final_test.csv", content)
        else:
            shutil.copytree(tmp_path / "extracted" / folder, content / folder)
        pack(content, tmp_path / "gtsrb" / f"GTSRB_Final_{part}.zip")
    assert same(read("gtsrb", tmp_path), expected)


def test_images_of_other_sizes_are_resized(tmp_path):
    from PIL import Image

    official_files.write_gtsrb(tmp_path)
    path = min((tmp_path / "GTSRB/Final_Training/Images").rglob("*.ppm"))
    Image.new("RGB", (57, 40), (10, 20, 30)).save(path)
    assert read("gtsrb", tmp_path).train.x[0, :, 16, 16].tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    ("name", "theirs", "folder"),
    [("cifar10", "CIFAR10", "."), ("cifar100", "CIFAR100", "."), ("svhn", "SVHN", "svhn"), ("mnist", "MNIST", ".")],
)
def test_torchvision_reads_the_same(tmp_path, monkeypatch, name, theirs, folder):
    from torchvision import datasets

    write = {**WRITERS, "mnist": lambda root: write_idx(root / "MNIST" / "raw")}[name]
    write(tmp_path)
    for module in (datasets.cifar, datasets.svhn, datasets.mnist):  # the files are too small to be the official ones
        monkeypatch.setattr(module, "check_integrity", lambda *_: True)
    splits = (
        [{"split": split} for split in ("train", "test")] if theirs == "SVHN" else [{"train": True}, {"train": False}]
    )
    data = read(name, tmp_path)
    for part, split in zip((data.train, data.test), splits, strict=True):
        their = getattr(datasets, theirs)(tmp_path / folder, **split)
        x = [np.atleast_3d(np.asarray(image)).transpose(2, 0, 1) for image, _ in their]
        assert np.array_equal(part.x.numpy(), np.stack(x))
        assert part.y.tolist() == [int(label) for _, label in their]


SCENE = [f"fl_scene.{setting}" for setting in ("K=4", "R=0.5", "E=1", "H=1", "B=16", "partition=iid")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svhn", "gtsrb", "cifar100", "cinic10"])
def test_one_round_on_each_dataset(command, tmp_path, name):
    WRITERS[name](tmp_path / "data")
    result = command(f"dataset={name}", "dataset.verify=false", *SCENE)
    assert result.code == 0, result.err
    assert "round 1/1" in result.out


def test_writers_are_clients(command, tmp_path):
    """10 of 100 writers, with 80% of their samples for training; their names are in the run folder."""
    official_files.write_femnist(tmp_path / "data", users=100, samples=10)
    result = command("dataset=femnist", "fl_scene.H=2", "model.width=32")
    assert result.code == 0, result.err
    assert "10 drawn from 100; the paper has 3,550 in total" in result.out
    assert "80 training and 20 test images, of 10 users" in result.out
    assert "10 with 8 to 8 samples, natural; 1 per round" in result.out
    config = (result.runs[0] / "config.yaml").read_text()
    assert "B: 10" in config
    names = read_json(result.runs[0] / "users.json")["users"]
    assert len(set(names)) == 10
    other = command("dataset=femnist", "fl_scene.H=1", "model.width=32", "seed=1")
    assert read_json(other.runs[-1] / "users.json")["users"] != names


@pytest.mark.parametrize("stages", [("all_data",), ("all_data", "sampled_data"), ("all_data", "train", "test")])
def test_samples_in_several_leaf_folders_count_once(tmp_path, stages):
    samples = official_files.random_images(10, (1, 28, 28), 62)
    for stage in stages:
        (tmp_path / "femnist" / stage).mkdir(parents=True)
        content = official_files.leaf_json({"ben" if stage == "test" else "anna": samples})
        (tmp_path / "femnist" / stage / "all_data_0.json").write_text(json.dumps(content))
    assert len(read("femnist", tmp_path).train) == (20 if "test" in stages else 10)


def test_leaf_files_can_be_compressed(tmp_path):
    expected = official_files.write_femnist(tmp_path)
    for path in list(tmp_path.rglob("*.json")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert same(read("femnist", tmp_path), expected)


# --- a bad file is refused in one line -----------------------------------------------------------------------------


def refusal(name: str, root: Path) -> str:
    with pytest.raises(DataError) as refused:
        read(name, root)
    message = str(refused.value)
    assert "\n" not in message
    return message


def test_a_file_cut_off(tmp_path):
    write_idx(tmp_path / "mnist")
    path = tmp_path / "mnist" / FILES[0]
    path.write_bytes(path.read_bytes()[:-10])
    assert f"{path} is cut off: 310 of 320 bytes" in refusal("mnist", tmp_path)


def test_a_compressed_file_cut_off(tmp_path):
    write_idx(tmp_path / "mnist", compressed=True)
    path = tmp_path / "mnist" / f"{FILES[0]}.gz"
    path.write_bytes(path.read_bytes()[:-10])
    assert re.match(rf"{path} cannot be read \(.+\); replace it or delete it", refusal("mnist", tmp_path))


@pytest.mark.parametrize("name", ["cifar10", "cinic10", "gtsrb", "svhn"])
def test_an_archive_cut_off(tmp_path, name):
    WRITERS[name](tmp_path / "extracted")
    archive = tmp_path / ARCHIVE[name]
    pack(tmp_path / "extracted", archive)
    os.truncate(archive, archive.stat().st_size // 2)
    assert re.match(rf"{archive} cannot be read \(.+\); replace it or delete it", refusal(name, tmp_path))


def test_a_missing_file_and_a_file_of_another_format(tmp_path):
    write_idx(tmp_path / "mnist")
    (tmp_path / "mnist" / FILES[3]).unlink()
    assert "lacks t10k-labels-idx1-ubyte" in refusal("mnist", tmp_path)
    with pytest.raises(DataError, match="somewhere is not an IDX file"):
        decode_idx(b"GIF89a", "somewhere")


@pytest.mark.parametrize(
    ("name", "delete", "missing"),
    [
        ("cifar10", "cifar-10-batches-py/data_batch_3", "lacks data_batch_3"),
        ("cifar100", "cifar-100-python/test", "lacks test"),
        ("svhn", "svhn/test_32x32.mat", "lacks test_32x32.mat"),
        ("gtsrb", "GTSRB/GT-final_test.csv", "lacks GT-final_test.csv; it needs GTSRB_Final_Training_Images.zip, "),
        ("gtsrb", "GTSRB/Final_Test/Images", "lacks test images; it needs"),
        ("cinic10", "CINIC-10/test", "lacks the folder test"),
    ],
)
def test_a_missing_part(tmp_path, name, delete, missing):
    WRITERS[name](tmp_path)
    path = tmp_path / delete
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert missing in refusal(name, tmp_path)


def test_an_empty_folder(tmp_path):
    (tmp_path / "CINIC-10").mkdir()
    assert f"{tmp_path / 'CINIC-10'} has no file of the dataset" in refusal("cinic10", tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n and no more", b"<html>not found</html>"])
def test_an_image_that_cannot_be_decoded(tmp_path, content):
    official_files.write_cinic(tmp_path)
    path = next((tmp_path / "CINIC-10/train").rglob("*.png"))
    path.write_bytes(content)
    assert f"{path} cannot be decoded as an image" in refusal("cinic10", tmp_path)


def test_labels_out_of_range(tmp_path):
    data = official_files.small((1, 4, 4), 3)
    data.train.y[7] = 11
    write_idx(tmp_path / "mnist", data=data)
    assert "train-labels-idx1-ubyte has the label 11, but labels range from 0 to 9" in refusal("mnist", tmp_path)
    official_files.write_gtsrb(tmp_path)
    table = tmp_path / "GTSRB/GT-final_test.csv"
    table.write_text(re.sub(r";\d+$", ";43", table.read_text().strip()))
    assert f"{table} has the label 43, but labels range from 0 to 42" in refusal("gtsrb", tmp_path)


def test_a_test_image_without_a_label(tmp_path):
    official_files.write_gtsrb(tmp_path)
    table = tmp_path / "GTSRB/GT-final_test.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join(lines[:-1]))
    assert f"{table} has no label for 00019.ppm" in refusal("gtsrb", tmp_path)
    table.write_text("\n".join(["Name;Class", *lines[1:]]))
    assert f"{table} has no column 'Filename'" in refusal("gtsrb", tmp_path)


def change_leaf(root: Path, change) -> Path:
    official_files.write_femnist(root)
    path = next((root / "femnist").rglob("*train*.json"))
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda c: c["user_data"].pop("f0003_03"), "0 images and 0 labels for the 18 samples of user f0003_03"),
        (
            lambda c: c["user_data"]["f0003_03"]["y"].pop(),
            "18 images and 17 labels for the 18 samples of user f0003",
        ),
        (lambda c: c["user_data"]["f0003_03"]["x"][2].pop(), "an image of user f0003_03 that is not 28x28"),
        (lambda c: c["user_data"]["f0003_03"].update(y=[62] * 18), "user f0003_03, has the label 62, but labels range"),
        (lambda c: c.pop("user_data"), "is not a LEAF file (no 'user_data')"),
        (lambda c: c["num_samples"].pop(), "is not a LEAF file (zip() argument 2 is shorter than argument 1)"),
        (lambda c: c.update(user_data=[]), "is not a LEAF file ("),
        (
            lambda c: c["user_data"]["f0003_03"]["x"][0].__setitem__(5, 255),
            "pixels of user f0003_03 outside 0 to 1",
        ),
        (lambda c: c["user_data"]["f0003_03"]["y"].__setitem__(5, 3.7), "labels that are not a list of whole numbers"),
    ],
)
def test_a_bad_leaf_file(tmp_path, change, line):
    path = change_leaf(tmp_path, change)
    message = refusal("femnist", tmp_path)
    assert str(path) in message
    assert line in message


class Malicious:
    def __reduce__(self):
        return (os.system, ("touch executed",))


def test_a_pickle_that_would_run_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    official_files.write_cifar10(tmp_path)
    path = tmp_path / "cifar-10-batches-py/data_batch_1"
    path.write_bytes(pickle.dumps(Malicious()))
    assert re.search(
        rf"{path} cannot be read \(it names \w+.system, which is not an array\)", refusal("cifar10", tmp_path)
    )
    assert not Path("executed").exists()


def link(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return member


@pytest.mark.parametrize(
    ("member", "line"),
    [
        (tarfile.TarInfo("../../.bashrc"), "its member ../../.bashrc would be written outside its folder"),
        (tarfile.TarInfo("/etc/cron.d/x"), "would be written outside its folder"),
        (link("train/cat/1.png"), "its member train/cat/1.png is a link"),
    ],
)
def test_an_archive_that_would_write_outside(tmp_path, member, line):
    official_files.tar_with(tmp_path / "CINIC-10.tar.gz", member)
    message = refusal("cinic10", tmp_path)
    assert "CINIC-10.tar.gz is not safe" in message
    assert line in message


def damage(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a few bytes, and sometimes cut off the end."""
    damaged = bytearray(content)
    for index in rng.integers(len(damaged), size=rng.integers(1, 4)):
        damaged[index] = rng.integers(256)
    return bytes(damaged[: rng.integers(1, len(damaged))] if rng.random() < 0.3 else damaged)


@pytest.mark.parametrize("name", [*WRITERS, "mnist"])
def test_damaged_files_never_cause_a_traceback(tmp_path, name):
    """Files with a few bytes changed are either read or refused in one line."""
    rng = np.random.default_rng(0)
    {**WRITERS, "mnist": lambda root: write_idx(root / "mnist")}[name](tmp_path)
    if name in ("gtsrb", "cinic10"):  # damage to an archive has more effects than damage to an image
        pack(tmp_path, tmp_path / ARCHIVE[name])
        shutil.rmtree(tmp_path / ("GTSRB" if name == "gtsrb" else "CINIC-10"))
    paths = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    refused = 0
    for _ in range(12):
        path = paths[rng.integers(len(paths))]
        original = path.read_bytes()
        path.write_bytes(damage(original, rng))
        try:
            read(name, tmp_path)
        except DataError:  # any other exception fails the test
            refused += 1
        path.write_bytes(original)
    assert refused


# --- duplicates are counted once, or refused -----------------------------------------------------------------------


def test_a_file_and_its_compressed_copy(tmp_path):
    expected = official_files.write_femnist(tmp_path)
    for path in list(tmp_path.rglob("*.json")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert same(read("femnist", tmp_path), expected)


def test_two_archives_of_the_same_files(tmp_path):
    expected = official_files.write_cinic(tmp_path / "extracted")
    for ending in (".tar.gz", ".zip"):
        pack(tmp_path / "extracted", tmp_path / f"CINIC-10{ending}")
    assert same(read("cinic10", tmp_path), expected)


def test_two_copies_in_one_folder(tmp_path):
    official_files.write_femnist(tmp_path)
    shutil.copytree(tmp_path / "femnist/data", tmp_path / "femnist/backup")
    assert "have the same samples of user f0000_00; delete one of them" in refusal("femnist", tmp_path)
    official_files.write_cinic(tmp_path)
    shutil.copytree(tmp_path / "CINIC-10/train", tmp_path / "CINIC-10/backup/train")
    assert re.search(r"train/airplane/cifar10-train-\d+.png exists twice", refusal("cinic10", tmp_path))


def test_a_damaged_file_of_an_ignored_leaf_step(tmp_path):
    expected = official_files.write_femnist(tmp_path)
    (tmp_path / "femnist/data/all_data").mkdir()
    (tmp_path / "femnist/data/all_data/all_data_0.json").write_text("{")
    assert same(read("femnist", tmp_path), expected)


def test_unrelated_files_are_ignored(tmp_path):
    expected = official_files.write_femnist(tmp_path / "extracted")
    pack(tmp_path / "extracted", tmp_path / "FEMNIST.ZIP")
    (tmp_path / "notes.json").write_text("{}")
    assert same(read("femnist", tmp_path), expected)
    expected = official_files.write_cinic(tmp_path)
    next((tmp_path / "CINIC-10/train").rglob("*.png")).with_name("._hidden.png").write_bytes(b"metadata of macOS")
    assert same(read("cinic10", tmp_path), expected)
