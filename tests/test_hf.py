"""dataset=hf: saved datasets, parquet files, folders of images; the Hub is a server on this machine, or missing."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from PIL import Image

import fedpan_exp as fp
from fedpan_exp.data.own_hf import _open
from fedpan_exp.studies.shared.setup import load_and_split
from fedpan_exp.system.errors import UserError

TINY = ("model=mlp", "model.width=8", "fl_scene.E=1", "fl_scene.H=1", "ranks=1")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPAN_DATA", str(tmp_path / "cache"))
    _open.cache_clear()


def rows(count: int = 30, seed: int = 0, **more: list) -> datasets.Dataset:
    pixels = np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3), np.uint8)
    columns = {
        "img": [Image.fromarray(array) for array in pixels],
        "fine": [i % 3 for i in range(count)],
        "writer": [("ann", "bob", "cid", "dan", "eve")[i % 5] for i in range(count)],
    }
    table = datasets.Dataset.from_dict(columns | more).cast_column("img", datasets.Image())
    return table.cast_column("fine", datasets.ClassLabel(names=["a", "b", "c"])) if "fine" not in more else table


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    datasets.DatasetDict(train=rows(), test=rows(9, seed=1)).save_to_disk(tmp_path / "saved")
    return tmp_path / "saved"


def settings(path: object, *more: str) -> tuple[str, ...]:
    return "dataset=hf", f"dataset.hf={path}", *TINY, *more


def test_a_saved_dataset_is_read_decoded_once_and_trained_on(saved, tmp_path, monkeypatch):
    dataset = fp.experiment(*settings(saved)).dataset
    assert (dataset.shape, dataset.classes) == ([3, 8, 8], 3)
    data = dataset.load(seed=0)
    assert torch.equal(data.train.x[4], torch.from_numpy(np.array(rows()[4]["img"])).permute(2, 0, 1))
    assert data.train.y.tolist() == [i % 3 for i in range(30)]
    assert len(data.test) == 9
    assert len(list((tmp_path / "cache").glob("hf-*.decoded.safetensors"))) == 1
    monkeypatch.setattr("fedpan_exp.data.own_hf.decode", None)  # not decoded again
    assert len(list(fp.federate(*settings(saved, "fl_scene.K=3")))) == 1


def test_parquet_files_image_folders_and_saved_ones_are_the_same_images(saved, tmp_path):
    (tmp_path / "tables" / "data").mkdir(parents=True)
    rows().to_parquet(tmp_path / "tables" / "data" / "train-00000.parquet")
    rows(9, seed=1).to_parquet(tmp_path / "tables" / "data" / "test-00000.parquet")
    for split, table in {"train": rows(), "test": rows(9, seed=1)}.items():
        for i, row in enumerate(table):
            path = tmp_path / "pictures" / split / "abc"[row["fine"]] / f"{i:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            row["img"].save(path)
    digests = {path.name: fp.experiment(*settings(path)).dataset.digest for path in (saved, tmp_path / "tables")}
    assert len(set(digests.values())) == 1
    pictures = fp.experiment(*settings(tmp_path / "pictures")).dataset.load(seed=0)
    assert pictures.train.x.flatten(1).sum(1).sort().values.tolist() == sorted(
        int(np.array(row["img"], np.int64).sum()) for row in rows()
    )
    assert pictures.train.y.bincount().tolist() == [10, 10, 10]


def test_a_column_of_users_gives_natural_clients(tmp_path):
    rows().save_to_disk(tmp_path / "saved")
    chosen = settings(tmp_path / "saved", "dataset.user=writer", "fl_scene=natural", "dataset.test_share=0.1")
    data, split, _ = load_and_split(fp.experiment(*chosen))
    assert data.users == ("ann", "bob", "cid", "dan", "eve")
    assert len(split.parts) == 5
    assert sum(map(len, split.parts)) == 27
    result = fp.run(*chosen, f"runs={tmp_path}/runs")
    assert result.status == "done"


def test_the_images_and_not_their_place_are_the_identity(saved, tmp_path):
    def name(path: Path) -> str:
        return fp.run(*settings(path, "study=partition", "fl_scene.K=2", f"runs={tmp_path}/runs")).folder.name

    first = name(saved)
    assert name(saved.rename(tmp_path / "moved")) == first
    rows(24).save_to_disk(tmp_path / "other")
    assert name(tmp_path / "other") != first


def test_labels_may_be_texts_and_columns_may_be_named(tmp_path):
    table = rows(12, fine=["dog", "cat", "eel"] * 4, other=[1] * 12)
    table.save_to_disk(tmp_path / "saved")
    with pytest.raises(UserError, match=r"dataset.label must name the column of the labels in .*: none of img, fine"):
        fp.experiment(*settings(tmp_path / "saved"))
    data = fp.experiment(*settings(tmp_path / "saved", "dataset.label=fine")).dataset.read()
    assert data.train.y.unique().tolist() == [0, 1, 2]


def damaged() -> datasets.Dataset:
    table = rows(6).cast_column("img", datasets.Image(decode=False))
    return table.map(lambda row, i: {"img": {"bytes": b"x" if i == 2 else row["img"]["bytes"]}}, with_indices=True)


@pytest.mark.parametrize(
    ("table", "more", "message"),
    [
        (
            rows,
            ["dataset.image=nothing"],
            r"dataset.image must be a column of .*, got nothing; it has img, fine and writer",
        ),
        (rows, ["dataset.image=fine"], r"dataset.image must be a column of images, got fine"),
        (rows, ["dataset.label=writer"], None),
        (lambda: rows(6, fine=[0.5] * 6), ["dataset.label=fine"], r"labels from 0, got float64 in fine of train"),
        (lambda: rows(6, fine=[-1] * 6), ["dataset.label=fine"], r"labels from 0, got -1 in fine of train"),
        (lambda: rows(6, fine=[0] * 6), ["dataset.label=fine"], r"dataset.classes must be at least 2, got 1"),
        (damaged, [], r"image 2 of train in .* cannot be decoded as an image \(unknown image format\)"),
        (lambda: datasets.DatasetDict(other=rows()), [], r"dataset.hf must have a split train, got other in"),
        (
            lambda: datasets.DatasetDict(train=rows(6, fine=["a", "c"] * 3), test=rows(6, fine=["b", "c"] * 3)),
            ["dataset.label=fine"],
            r"has b in its test set, which its training set does not have",
        ),
    ],
)
def test_a_dataset_that_cannot_be_used_is_refused_in_one_line(tmp_path, table, more, message):
    table().save_to_disk(tmp_path / "saved")
    if message is None:
        assert fp.experiment(*settings(tmp_path / "saved", *more)).dataset.classes == 5
        return
    with pytest.raises(UserError, match=message) as error:
        fp.experiment(*settings(tmp_path / "saved", *more))
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "cache").glob(".*"))  # nothing half-written


class NotFound(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def empty_hub(monkeypatch) -> Iterator[None]:
    server = HTTPServer(("127.0.0.1", 0), NotFound)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    for module in ("datasets.config", "huggingface_hub.constants"):
        name = "HF_ENDPOINT" if module.startswith("datasets") else "ENDPOINT"
        monkeypatch.setattr(f"{module}.{name}", address)
    yield
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_name_that_is_not_on_the_hub_is_refused_in_one_line(empty_hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"dataset.hf must be a dataset of the Hugging Face Hub, or a path, got a/b"
    ) as e:
        fp.run(*settings("a/b"))
    assert "\n" not in str(e.value)
    assert not Path("runs").exists()


def test_without_network_a_name_is_refused_at_once_in_one_line(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("datasets.config.HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens
    started = time.monotonic()
    with pytest.raises(UserError, match=r"dataset.hf must be .*, got a/b \(http://127.0.0.1:9 cannot be reached\)"):
        fp.run(*settings("a/b"))
    assert time.monotonic() - started < 20  # the library alone retries for minutes
    assert not capfd.readouterr().err
    with pytest.raises(UserError, match=r"dataset.hf must be a dataset .*, got none"):
        fp.experiment("dataset=hf")
    assert not Path("runs").exists()
    assert not datasets.config.HF_HUB_OFFLINE


def test_without_the_package_one_line_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(UserError, match=r'dataset=hf needs its package: pip install "fedpan_exp\[hf\]"'):
        fp.experiment("dataset=hf", "dataset.hf=a/b")
