"""Loading a dataset: from files or the cache, downloaded once, verified, or refused in one line."""

import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from official_files import write_cinic, write_idx, write_svhn

from conftest import random_images
from fedpan_exp.data.dataset import SOURCES
from fedpan_exp.data.datasets.digits import load_digits
from fedpan_exp.data.download import Download, checksum
from fedpan_exp.data.files import Files
from fedpan_exp.data.images import DatasetSplits, ImageTensors
from fedpan_exp.data.source import Source
from fedpan_exp.data.store import load_or_download, locate
from fedpan_exp.system.errors import DataError

TINY = DatasetSplits(random_images(20), random_images(5, seed=1))


def slow_download(log: Path, folder: Path) -> DatasetSplits:
    """Simulate a download; append a line to `log` per call."""
    with log.open("a") as file:
        file.write("downloaded\n")
    time.sleep(0.5)
    return TINY


def fail(folder: Path) -> DatasetSplits:
    raise ConnectionError("no route to host\nand more")


def tiny_source(digest: str = TINY.digest(), counts: tuple[int, int] | None = (20, 5), **registries) -> Source:
    return Source(
        name="tiny",
        search_dirs=("tiny",),
        files=re.compile(r"tiny\.bin$"),
        archives=re.compile(r"tiny\.zip"),
        read=lambda files: TINY,
        page="a page",
        licence="none",
        counts=counts,
        digest=digest,
        registries=registries,
    )


def test_a_root_that_does_not_exist_is_announced_with_the_size(tmp_path, capsys):
    source = replace(tiny_source(pip=lambda folder: TINY), image_bytes=1_000_000)
    for _ in range(2):
        load_or_download(source, tmp_path / "new")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "does not exist" in line]
    assert line.endswith(
        f"{tmp_path / 'new'} does not exist: it is created, and {source.name} (25 MB) downloaded into it"
    )


def test_registries_are_tried_in_order_and_the_result_is_saved(tmp_path):
    log = tmp_path / "log"
    source = tiny_source(first=fail, second=partial(slow_download, log))
    root = tmp_path / "new" / "root"
    for _ in range(2):
        data = load_or_download(source, root)
        assert torch.equal(data.train.x, TINY.train.x)
        assert torch.equal(data.test.y, TINY.test.y)
    assert log.read_text() == "downloaded\n"
    assert sorted(path.name for path in root.iterdir()) == [".tiny.lock", "tiny.safetensors"]


def test_concurrent_processes_download_once(tmp_path):
    log = tmp_path / "log"
    source = tiny_source(slow=partial(slow_download, log))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [
        context.Process(target=lambda: results.put(load_or_download(source, tmp_path / "root").digest()))
        for _ in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [results.get(timeout=5) for _ in processes] == [TINY.digest()] * 3
    assert log.read_text() == "downloaded\n"


def test_the_message_after_failed_downloads_says_which_file_to_put_where(tmp_path):
    source = tiny_source(
        one=fail,
        wrong=lambda folder: DatasetSplits(random_images(3), random_images(3)),
        other=lambda folder: DatasetSplits(random_images(20, seed=5), TINY.test),
    )
    with pytest.raises(DataError) as refusal:
        load_or_download(source, tmp_path)
    message = str(refusal.value)
    assert "\n" not in message
    assert "one: no route to host" in message
    assert "wrong: 3 training and 3 test images, not 20 and 5" in message
    assert "other: images or labels differ" in message
    assert "put its files from a page in its folder tiny" in message
    assert not list(tmp_path.glob("*.safetensors"))


def test_a_damaged_download(tmp_path):
    (tmp_path / "tiny.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{cut off")
    with pytest.raises(DataError, match=r"tiny.safetensors cannot be read .*; delete it to get the dataset again"):
        load_or_download(tiny_source(), tmp_path)


def test_a_root_that_is_not_writable(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"dataset.root must be a folder that can be written, got"):
        load_or_download(tiny_source(one=fail), tmp_path / "file" / "root")


def test_files_that_are_not_the_official_ones(tmp_path):
    write_idx(tmp_path / "MNIST/raw")
    with pytest.raises(DataError) as refusal:
        load_or_download(SOURCES["mnist"], tmp_path)
    assert "is not the official mnist: 20 training and 5 test images, not 60,000 and 10,000" in str(refusal.value)
    assert len(load_or_download(SOURCES["mnist"], tmp_path, verify=False).train) == 20
    with pytest.raises(DataError, match="is not the official mnist"):  # cached tensors are verified, too
        load_or_download(SOURCES["mnist"], tmp_path)


def test_a_wrong_checksum(tmp_path):
    write_svhn(tmp_path)
    source = replace(SOURCES["svhn"], counts=(60, 20))
    with pytest.raises(DataError, match=r"test_32x32.mat has md5 [0-9a-f]{32}, not eb5a983be6a315427106f1b164d9cef3;"):
        load_or_download(source, tmp_path)


def test_right_checksums(tmp_path):
    write_svhn(tmp_path)
    files = sorted((tmp_path / "svhn").iterdir())
    source = replace(
        SOURCES["svhn"],
        counts=(60, 20),
        downloads=lambda: [Download(checksum(path), (f"http://nowhere/{path.name}",)) for path in files],
    )
    located = locate(source, tmp_path)
    assert located is not None
    assert located.verdict == "official"


def counting(source: Source) -> tuple[Source, list[Files]]:
    """Return the source, and a list that grows each time its files are decoded."""
    reads: list[Files] = []

    def read(files: Files) -> DatasetSplits:
        reads.append(files)
        return source.read(files)

    return replace(source, read=read), reads


def test_a_second_start_reads_the_cache(tmp_path):
    data = write_cinic(tmp_path)
    source, reads = counting(SOURCES["cinic10"])
    first = load_or_download(source, tmp_path, verify=False)
    second = load_or_download(source, tmp_path, verify=False)
    assert first.digest() == second.digest() == data.digest()
    assert len(reads) == 1


def test_changed_files_are_decoded_again(tmp_path):
    write_cinic(tmp_path)
    source, reads = counting(SOURCES["cinic10"])
    before = load_or_download(source, tmp_path, verify=False)
    one, other = sorted((tmp_path / "CINIC-10/train").rglob("*.png"))[:2]
    one.write_bytes(other.read_bytes())  # in place: the folder does not change
    after = load_or_download(source, tmp_path, verify=False)
    assert not torch.equal(before.train.x[0], after.train.x[0])
    assert torch.equal(after.train.x[0], after.train.x[1])
    other.unlink()
    assert len(load_or_download(source, tmp_path, verify=False).train) == len(before.train) - 1
    assert len(reads) == 3


def test_copied_files_are_not_decoded_again(tmp_path):
    write_cinic(tmp_path / "old")
    source, reads = counting(SOURCES["cinic10"])
    load_or_download(source, tmp_path / "old", verify=False)
    shutil.copytree(tmp_path / "old", tmp_path / "new", copy_function=shutil.copy)
    load_or_download(source, tmp_path / "new", verify=False)
    load_or_download(source, tmp_path / "new", verify=False)
    assert len(reads) == 1


def test_a_read_only_root(tmp_path, monkeypatch):
    """The tensors are cached in the user's cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "lab"
    data = write_svhn(root)
    (root / ".svhn.lock").mkdir()  # simulates a read-only folder, which does not stop root
    source, reads = counting(SOURCES["svhn"])
    for _ in range(2):
        assert load_or_download(source, root, verify=False).digest() == data.digest()
    assert len(reads) == 1
    assert not list(root.glob("*.safetensors"))
    assert len(list((tmp_path / "cache/fedpan_exp").iterdir())) == 1


def test_a_file_replaced_by_one_of_the_same_size_and_time(tmp_path):
    write_cinic(tmp_path)
    before = load_or_download(SOURCES["cinic10"], tmp_path, verify=False)
    one, other = sorted((tmp_path / "CINIC-10/train").rglob("*.png"))[:2]
    content, times = other.read_bytes(), one.stat()
    size = max(len(content), times.st_size)
    for path, image in ((one, one.read_bytes()), (other, content)):
        path.write_bytes(image + bytes(size - len(image)))  # bytes after the end of a PNG are ignored
    load_or_download(SOURCES["cinic10"], tmp_path, verify=False)
    times = one.stat()
    one.write_bytes(other.read_bytes())
    os.utime(one, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = load_or_download(SOURCES["cinic10"], tmp_path, verify=False)
    assert not torch.equal(before.train.x[0], after.train.x[0])


def test_cached_tensors_are_not_used_after_their_files_are_deleted(tmp_path):
    write_idx(tmp_path / "MNIST/raw")
    load_or_download(SOURCES["mnist"], tmp_path, verify=False)
    shutil.rmtree(tmp_path / "MNIST")
    assert locate(SOURCES["mnist"], tmp_path) is None


def test_files_in_the_root_do_not_change_downloaded_tensors(tmp_path):
    source = tiny_source(quick=lambda folder: TINY)
    load_or_download(source, tmp_path)
    (tmp_path / "tiny").mkdir()
    assert load_or_download(source, tmp_path).digest() == TINY.digest()  # an empty folder changes nothing
    (tmp_path / "tiny/tiny.bin").write_text("other")
    junk = DatasetSplits(random_images(3), random_images(3))
    other = replace(source, read=lambda files: junk)
    assert load_or_download(other, tmp_path, verify=False).digest() == junk.digest()
    shutil.rmtree(tmp_path / "tiny")
    assert load_or_download(source, tmp_path).digest() == TINY.digest()


@pytest.mark.parametrize(
    "wrong", [ImageTensors(TINY.train.x[:-1], TINY.train.y), ImageTensors(TINY.train.x.double(), TINY.train.y)]
)
def test_images_that_do_not_match_their_labels(tmp_path, wrong):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny/tiny.bin").touch()
    source = replace(tiny_source(), read=lambda files: DatasetSplits(wrong, TINY.test))
    with pytest.raises(DataError, match=r"tiny has 20 labels for \d+x1x4x4 torch.\w+ pixels; replace its files"):
        load_or_download(source, tmp_path, verify=False)


def test_a_decoding_process_that_is_killed(tmp_path, monkeypatch):
    write_cinic(tmp_path)
    monkeypatch.setattr("fedpan_exp.data.decode._decode_one", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(
        DataError, match="a process that decoded images was killed, possibly out of memory; run the same command"
    ):
        load_or_download(SOURCES["cinic10"], tmp_path)


def in_a_child(work: Callable[[], str]) -> str:
    """Run `work` in a process of its own, so that it can change its resource limits."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=lambda: results.put(work()))
    child.start()
    result = results.get(timeout=60)
    child.join(60)
    return result


def on_a_full_disk(work: Callable[[], DatasetSplits]) -> str:
    def limited() -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # larger files fail with OSError
        try:
            return work().digest()
        except DataError as error:
            return str(error)

    return in_a_child(limited)


def test_a_full_disk_ends_a_download_in_one_line_and_leaves_no_files(tmp_path):
    big = DatasetSplits(random_images(500), random_images(5))
    source = tiny_source(quick=lambda folder: big, digest=big.digest(), counts=None)
    message = on_a_full_disk(lambda: load_or_download(source, tmp_path / "root"))
    assert re.match(
        r"dataset.root must be a folder that can be written, got .*/root \(.*[Ff]ile too large.*\)", message
    )
    assert sorted(path.name for path in (tmp_path / "root").iterdir()) == [".tiny.lock"]


def test_a_full_disk_prevents_caching_but_not_loading(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = write_svhn(tmp_path)
    assert on_a_full_disk(lambda: load_or_download(SOURCES["svhn"], tmp_path, verify=False)) == data.digest()
    assert not [path for path in tmp_path.rglob("*svhn*") if path.name not in ("svhn", ".svhn.lock")]


@pytest.mark.parametrize("name", ["tiny.safetensors", ".tiny.lock"])
def test_links_to_outside_are_not_written(tmp_path, name):
    outside = tmp_path / "precious"
    outside.write_text("mine")
    root = tmp_path / "root"
    root.mkdir()
    (root / name).symlink_to(outside if name.startswith(".") else tmp_path / "not there yet")
    with pytest.raises(DataError, match=f"{name} is a link, and writing to it would write outside"):
        load_or_download(tiny_source(quick=lambda folder: TINY), root)
    assert outside.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "root"]


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
def test_the_real_datasets_can_be_downloaded(tmp_path, monkeypatch, name, counts):
    monkeypatch.chdir(tmp_path)
    data = load_or_download(SOURCES[name], Path("data"))
    assert data.train.y.bincount().tolist() == counts
    assert len(data.test) == 10_000
    assert data.digest() == SOURCES[name].digest


@pytest.mark.slow
def test_all_registries_give_the_same_mnist(tmp_path):
    working = []
    for registry, fetch in SOURCES["mnist"].registries.items():
        (tmp_path / registry).mkdir()
        try:
            data = fetch(tmp_path / registry)
        except Exception as error:  # the network may block some of them
            print(registry, error)
            continue
        assert data.digest() == SOURCES["mnist"].digest
        working.append(registry)
    assert working


@pytest.mark.slow
def test_two_commands_download_the_same_real_dataset_once(tmp_path):
    command = [sys.executable, "-m", "fedpan_exp.data", "get", "mnist", "--root", str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert all("mnist         complete  60,000 + 10,000" in output for output in outputs)
    assert sum("mnist is in" in output for output in outputs) == 1  # the other waited
