"""Getting a dataset: found, fetched once, verified, or refused in one line."""

import gzip
import multiprocessing
import struct
import time
from functools import partial
from pathlib import Path

import pytest
import torch

from conftest import random_images
from fedpan_exp.checks import DataError
from fedpan_exp.data.dataset import SOURCES
from fedpan_exp.data.digits import load_digits
from fedpan_exp.data.idx import FILES, decode
from fedpan_exp.data.images import Data
from fedpan_exp.data.store import Source, obtain

TINY = Data(random_images(20), random_images(5, seed=1))


def fetch_slowly(log: Path, folder: Path) -> Data:
    """Stands for a download; leaves a mark for each time it is called."""
    with log.open("a") as file:
        file.write("fetched\n")
    time.sleep(0.5)
    return TINY


def fail(folder: Path) -> Data:
    raise ConnectionError("no route to host\nand more")


def tiny_source(**fetch) -> Source:
    return Source("tiny", TINY.digest(), lambda root: None, fetch, "tiny.bin (md5 0123)")


def test_ways_are_tried_in_order_and_the_result_is_kept(tmp_path):
    log = tmp_path / "log"
    source = tiny_source(first=fail, second=partial(fetch_slowly, log))
    root = tmp_path / "new" / "root"
    for _ in range(2):
        data = obtain(source, root)
        assert torch.equal(data.train.x, TINY.train.x)
        assert torch.equal(data.test.y, TINY.test.y)
    assert log.read_text() == "fetched\n"
    assert sorted(path.name for path in root.iterdir()) == [".tiny.lock", "tiny.safetensors"]


def test_two_processes_that_ask_at_once_fetch_once(tmp_path):
    log = tmp_path / "log"
    source = tiny_source(slow=partial(fetch_slowly, log))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    ask = [context.Process(target=lambda: results.put(obtain(source, tmp_path / "root").digest())) for _ in range(3)]
    for process in ask:
        process.start()
    for process in ask:
        process.join(60)
    assert [results.get(timeout=5) for _ in ask] == [TINY.digest()] * 3
    assert log.read_text() == "fetched\n"


def test_when_nothing_works_the_message_says_which_file_to_put_where(tmp_path):
    source = tiny_source(one=fail, wrong=lambda folder: Data(random_images(3), random_images(3)))
    with pytest.raises(DataError) as refusal:
        obtain(source, tmp_path)
    message = str(refusal.value)
    assert "\n" not in message
    assert "one: no route to host" in message
    assert "wrong: the tiny images or labels in wrong are not the official ones" in message
    assert "put tiny.bin (md5 0123) there" in message
    assert not list(tmp_path.glob("*.safetensors"))


def test_a_damaged_file_of_ours_is_said(tmp_path):
    (tmp_path / "tiny.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{cut off")
    with pytest.raises(DataError, match=r"tiny.safetensors cannot be read .*; delete it to fetch it again"):
        obtain(tiny_source(), tmp_path)


def test_a_root_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"dataset.root must be a folder that can be written, got"):
        obtain(tiny_source(one=fail), tmp_path / "file" / "root")


def idx(values: torch.Tensor) -> bytes:
    return struct.pack(f">HBB{values.dim()}i", 0, 8, values.dim(), *values.shape) + bytes(values.flatten().tolist())


def write_mnist(folder: Path, packed: bool = False) -> None:
    folder.mkdir(parents=True)
    tensors = (
        TINY.train.x[:, 0],
        TINY.train.y.to(torch.uint8),
        TINY.test.x[:, 0],
        TINY.test.y.to(torch.uint8),
    )
    for name, tensor in zip(FILES, tensors, strict=True):
        content = idx(tensor)
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("folder", ["MNIST/raw", "mnist"])
def test_official_files_are_read_where_they_lie(tmp_path, packed, folder):
    write_mnist(tmp_path / folder, packed)
    data = SOURCES["mnist"].read(tmp_path)
    assert data is not None
    assert data.digest() == TINY.digest()


def test_files_in_place_that_are_not_the_official_ones(tmp_path):
    write_mnist(tmp_path / "MNIST/raw")
    with pytest.raises(DataError, match=r"the mnist images or labels in .* are not the official ones"):
        obtain(SOURCES["mnist"], tmp_path)


def test_a_file_cut_off(tmp_path):
    write_mnist(tmp_path / "MNIST/raw")
    path = tmp_path / "MNIST/raw" / FILES[0]
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte is cut off: 310 of 320 bytes"):
        obtain(SOURCES["mnist"], tmp_path)


def test_a_packed_file_cut_off(tmp_path):
    write_mnist(tmp_path / "MNIST/raw", packed=True)
    path = tmp_path / "MNIST/raw" / f"{FILES[0]}.gz"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz cannot be read"):
        obtain(SOURCES["mnist"], tmp_path)


def test_one_file_missing_and_one_of_another_kind(tmp_path):
    write_mnist(tmp_path / "MNIST/raw")
    (tmp_path / "MNIST/raw" / FILES[3]).unlink()
    with pytest.raises(DataError, match="lacks t10k-labels-idx1-ubyte"):
        obtain(SOURCES["mnist"], tmp_path)
    with pytest.raises(DataError, match="somewhere is not an IDX file"):
        decode(b"GIF89a", "somewhere")


def test_a_damaged_cifar_folder(tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"cut off")
    with pytest.raises(DataError, match="cifar-10-batches-py is incomplete or damaged"):
        obtain(SOURCES["cifar10"], tmp_path)


def test_digits():
    data = load_digits()
    assert data.train.x.shape == (1437, 1, 8, 8)
    assert data.test.x.shape == (360, 1, 8, 8)
    assert data.train.x.dtype == torch.uint8
    assert data.train.y.bincount().min() > 100
    assert data.digest() == load_digits().digest()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("mnist", [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        ("fashion_mnist", [6000] * 10),
        ("cifar10", [5000] * 10),
    ],
)
def test_the_real_datasets_can_be_had(tmp_path, monkeypatch, name, counts):
    monkeypatch.chdir(tmp_path)
    data = obtain(SOURCES[name], Path("data"))
    assert data.train.y.bincount().tolist() == counts
    assert len(data.test) == 10_000
    assert data.digest() == SOURCES[name].digest


@pytest.mark.slow
def test_every_way_to_mnist_gives_the_same_tensors(tmp_path):
    worked = []
    for way, fetch in SOURCES["mnist"].fetch.items():
        (tmp_path / way).mkdir()
        try:
            data = fetch(tmp_path / way)
        except Exception as error:  # a closed network may let none, some or all of them through
            print(way, error)
            continue
        assert data.digest() == SOURCES["mnist"].digest
        worked.append(way)
    assert worked
