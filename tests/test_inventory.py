"""The command python -m fedpan_exp.data, called in this process."""

import json
from functools import partial

import pytest
from official_files import write_cinic, write_femnist, write_idx

from fedpan_exp.data import __main__ as program
from fedpan_exp.data.dataset import SOURCES


@pytest.fixture
def data(monkeypatch, tmp_path, call_main):
    monkeypatch.chdir(tmp_path)
    return partial(call_main, program.main)


def test_all_datasets_are_missing(data):
    code, out, _ = data("list", "--json")
    items = {item["dataset"]: item for item in json.loads(out)}
    assert code == 0
    assert items.keys() == {*SOURCES, "digits"}
    assert items["digits"]["state"] == "complete"
    for name in SOURCES:
        assert items[name]["state"] == "missing"
        assert items[name]["licence"]
        downloadable = items[name]["get"].startswith(f"python -m fedpan_exp.data get {name}, or from http")
        assert downloadable or (name == "femnist" and "preprocess.sh" in items[name]["get"])


def test_states_of_datasets(data, tmp_path):
    write_femnist(tmp_path / "data")
    write_cinic(tmp_path / "data")
    write_idx(tmp_path / "data/MNIST/raw")
    (tmp_path / "data/MNIST/raw/train-labels-idx1-ubyte").unlink()
    items = {item["dataset"]: item for item in json.loads(data("list", "femnist", "cinic10", "mnist", "--json")[1])}
    assert items["femnist"]["state"] == "complete"
    assert items["femnist"]["images"] == "200 by 10 users"
    assert items["femnist"]["where"] == "data/femnist"
    assert items["femnist"]["checksum"] == "not checked"
    assert items["cinic10"]["state"] == "wrong"
    assert "40 training and 40 test images, not 90,000 and 90,000" in items["cinic10"]["wrong"]
    assert items["mnist"]["wrong"].startswith("data/MNIST/raw lacks train-labels-idx1-ubyte")
    out = data("list", "cinic10")[1]
    assert "cinic10       wrong     40 + 40" in out
    assert "licence: CC BY 4.0" in out


def test_datasets_that_cannot_be_downloaded(data):
    code, _, err = data("get", "femnist")
    assert code == 1
    assert err.startswith(
        "fedpan_exp: dataset=femnist is not in dataset.root=data and cannot be downloaded automatically; put"
    )
    assert err.count("\n") == 1
    code, _, err = data("get", "mnst")
    assert code == 1
    assert err.endswith("got mnst; did you mean mnist?\n")


def test_help_has_examples(data):
    code, out, _ = data("--help")
    assert code == 0
    assert "python -m fedpan_exp.data get cifar10 mnist" in out
