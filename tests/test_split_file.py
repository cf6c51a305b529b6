"""Splits written to files and read back: the same clients, or one line that says what is wrong."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import fedpan_exp as fp
from conftest import random_images
from fedpan_exp.data import FORMATS, DatasetSplits, PartitionConfig, Split, read_split, split, write_split
from fedpan_exp.system.errors import UserError

DATA = DatasetSplits(random_images(60), random_images(20, seed=1))
SPLIT = split(DATA.train.y, PartitionConfig("dirichlet", 4, 0.5), seed=0)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_split_that_was_written_is_read_back(tmp_path, kind):
    data, read = read_split(write_split(tmp_path, DATA, SPLIT, 0, kind), DATA)
    assert len(read.parts) == len(SPLIT.parts)
    for ours, theirs in zip(SPLIT.parts, read.parts, strict=True):
        assert torch.equal(data.train.x[theirs], DATA.train.x[ours])
        assert torch.equal(data.train.y[theirs], DATA.train.y[ours])
    assert torch.equal(data.test.x, DATA.test.x)


@pytest.mark.parametrize("kind", sorted({*FORMATS} - {"fedpan_exp"}))
def test_indices_of_all_images_are_refused_where_some_are_withheld(tmp_path, kind):
    path = write_split(tmp_path, DATA, SPLIT, 0, kind)
    with pytest.raises(
        UserError, match=r"^fl_scene\.reserve must be 0 with a split whose indices refer to all training"
    ):
        read_split(path, DATA, withheld=6)
    with pytest.raises(UserError, match=rf"^fl_scene\.reserve must be 0 for study\.split={kind}, .*, got 0\.1$"):
        fp.experiment("study=partition", f"study.split={kind}", "fl_scene.reserve=0.1")
    ours = write_split(tmp_path, DATA, SPLIT, 0)
    assert len(read_split(ours, DATA, withheld=6)[1].parts) == 4


def test_the_test_parts_of_fl_bench_are_the_global_test_set(tmp_path):
    clients = [
        {"train": np.arange(0, 60, 2), "val": np.array([61]), "test": np.array([1, 3])},
        {"train": [5], "test": []},
    ]
    (tmp_path / "partition.pkl").write_bytes(pickle.dumps({"data_indices": clients, "separation": {}}))
    data, read = read_split(tmp_path / "partition.pkl", DATA)
    assert [len(part) for part in read.parts] == [31, 1]
    assert torch.equal(data.train.x[61], DATA.test.x[1])
    assert torch.equal(data.test.x, DATA.train.x[[1, 3]])


def test_fl_benchs_clients_that_are_only_tested_are_part_of_the_test_set(tmp_path):
    """As FL-bench's `--split user` writes them: some clients have all of their samples in train, others in test."""
    none = np.array([], dtype=np.int64)
    clients = [
        {"train": np.arange(0, 30), "val": none, "test": none},
        {"train": none, "val": none, "test": np.arange(60, 80)},
        {"train": np.arange(30, 60), "val": none, "test": none},
    ]
    (tmp_path / "partition.pkl").write_bytes(pickle.dumps({"data_indices": clients, "separation": {}}))
    data, read = read_split(tmp_path / "partition.pkl", DATA)
    assert [part.tolist() for part in read.parts] == [list(range(30)), list(range(30, 60))]
    assert torch.equal(data.test.x, DATA.test.x)


def test_dropped_clients_leave_samples_out(tmp_path):
    dropped = Split(SPLIT.parts[1:])
    assert len(read_split(write_split(tmp_path, DATA, dropped, 0), DATA)[1].parts) == 3


def ids(**changes: object) -> dict[str, object]:
    return {"0": list(range(30)), "1": list(range(30, 60)), **changes}


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (ids(**{"1": [0, *range(30, 60)]}), "the index 0 twice"),
        (ids(**{"1": [*range(31, 60)]}), "no client for the index 30 and 1 in all"),
        (ids(**{"1": [*range(30, 61)]}), "the index 60 for 60 samples"),
        (ids(**{"1": [-1]}), "the index -1 for 60 samples"),
        (ids(**{"1": []}), "a client without samples"),
        (ids(**{"1": "a"}), "clients that are not lists of whole numbers"),
        (ids(x=[1]), "the keys 0, 1, x"),
        ({"clients": [], "data": "x"}, "of other images"),
        ([1], "a JSON list"),
        ({"data_indices": [{"train": [1]}]}, "data_indices without train and test"),
    ],
)
def test_a_split_that_does_not_fit_is_refused_in_one_line(tmp_path, content, got):
    (tmp_path / "split.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=got) as error:
        read_split(tmp_path / "split.json", DATA)
    assert "\n" not in str(error.value)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("made_by_a_pickle",)


@pytest.mark.parametrize("content", [b"x", pickle.dumps(Evil())])
def test_a_pickle_cannot_run_code(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    Path("partition.pkl").write_bytes(content)
    with pytest.raises(UserError, match=r"fl_scene.file must be FL-bench's partition.pkl, got"):
        read_split(Path("partition.pkl"), DATA)
    assert not Path("made_by_a_pickle").exists()


def test_a_run_uses_the_split_of_a_file_and_its_content_is_the_identity(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny = ("dataset=digits", "model.width=8", "fl_scene.E=1", "fl_scene.H=1", "ranks=1")
    drawn = fp.run(*tiny, "study=partition", "fl_scene.K=5")
    for name in ("split.json", "copy.json"):
        Path(name).write_bytes((drawn.folder / "split.json").read_bytes())
    by_draw = next(fp.federate(*tiny, "fl_scene.K=5", "fl_scene.R=1"))
    from_file = ("fl_scene.partition=file", "fl_scene.file=split.json", "fl_scene.R=1")
    by_file = next(fp.federate(*tiny, *from_file))
    assert torch.equal(by_draw.server.weights, by_file.server.weights)
    folder = fp.run(*tiny, *from_file).folder
    assert fp.run(*tiny, *from_file, "fl_scene.file=copy.json", "fl_scene.K=7").folder == folder
    for setting, message in {
        "fl_scene.file=none.json": "fl_scene.file must be a file that can be read, got none.json",
        "fl_scene.file=null": "fl_scene.file must be the file of the split with fl_scene.partition=file",
        "fl_scene.file=copy.json@00000000": r"fl_scene.file must be copy.json@\w+, its content, got",
    }.items():
        with pytest.raises(UserError, match=message):
            fp.experiment(*from_file, setting)


def test_pfllib_reads_our_files_as_its_own(tmp_path):
    """As PFLlib does: np.load of a pickled dict, images scaled by mean and std of 0.5, an entry per client."""
    folder = write_split(tmp_path, DATA, SPLIT, 0, "pfllib")
    config = json.loads((folder / "config.json").read_text())
    assert config["num_clients"] == len(SPLIT.parts)
    for k, part in enumerate(SPLIT.parts):
        with (folder / "train" / f"{k}.npz").open("rb") as file:
            client = np.load(file, allow_pickle=True)["data"].tolist()
        assert torch.allclose(torch.Tensor(client["x"]), (DATA.train.x[part] / 255 - 0.5) / 0.5, atol=1e-6)
        assert client["y"].tolist() == DATA.train.y[part].tolist()
        assert config["Size of samples for labels in clients"][k] == [
            [label, count] for label, count in enumerate(DATA.train.y[part].bincount().tolist()) if count
        ]
    test = [np.load(folder / "test" / f"{k}.npz", allow_pickle=True)["data"].tolist()["y"] for k in range(4)]
    assert np.concatenate(test).tolist() == DATA.test.y.tolist()


def test_equal_images_of_pfllib_are_each_found_once(tmp_path):
    twice = DatasetSplits(DATA.train[torch.tensor([0, 0, 1, 2])], DATA.test)
    parts = Split([torch.tensor([0, 2]), torch.tensor([1, 3])])
    _, read = read_split(write_split(tmp_path, twice, parts, 0, "pfllib"), twice)
    assert [part.tolist() for part in read.parts] == [[0, 2], [1, 3]]


def test_a_folder_of_pfllib_that_does_not_fit_is_refused_in_one_line(tmp_path):
    folder = write_split(tmp_path, DATA, SPLIT, 0, "pfllib")
    other = DatasetSplits(random_images(60, seed=5), DATA.test)
    with pytest.raises(UserError, match=r"must be a split of this dataset, got .*0.npz, with other images"):
        read_split(folder, other)
    (folder / "test" / "1.npz").unlink()
    with pytest.raises(UserError, match=r"must be a folder of PFLlib, got .*test/1.npz"):
        read_split(folder, DATA)
    np.savez(folder / "train" / "0.npz", data=np.array(Evil(), dtype=object))
    with pytest.raises(UserError, match=r"got .*0.npz \(it names posix.mkdir, which is not an array\)"):
        read_split(folder, DATA)


def test_flwr_datasets_gives_the_same_clients(tmp_path):
    """Our indices by id as a column of clients; and indices of theirs as a split of ours."""
    partitioner = pytest.importorskip("flwr_datasets.partitioner")
    import datasets

    clients = json.loads(write_split(tmp_path, DATA, SPLIT, 0, "flwr").read_text())
    owner = {index: k for k, indices in clients.items() for index in indices}
    columns = {"label": DATA.train.y.tolist(), "client": [owner[i] for i in range(60)], "index": list(range(60))}
    table = datasets.Dataset.from_dict(columns)
    natural = partitioner.NaturalIdPartitioner(partition_by="client")
    natural.dataset = table
    for k in range(4):
        labels = natural.load_partition(k)["label"][:]
        assert labels == DATA.train.y[SPLIT.parts[int(natural.partition_id_to_natural_id[k])]].tolist()
    theirs = partitioner.DirichletPartitioner(3, "label", alpha=1.0, min_partition_size=2, seed=0)
    theirs.dataset = table
    indices = {str(k): theirs.load_partition(k)["index"][:] for k in range(3)}
    (tmp_path / "theirs.json").write_text(json.dumps(indices))
    _, read = read_split(tmp_path / "theirs.json", DATA)
    assert [part.tolist() for part in read.parts] == [sorted(indices[str(k)]) for k in range(3)]


def test_pfllibs_own_files_are_read(tmp_path):
    """As PFLlib writes them: training and test images pooled, normalised by torchvision, drawn for each client."""
    from torchvision.transforms import v2

    normalise = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5])])
    x, y = torch.cat([DATA.train.x, DATA.test.x]), torch.cat([DATA.train.y, DATA.test.y])
    drawn = np.random.default_rng(0).permutation(len(y)).reshape(2, 2, 20)  # client, part
    for part, k in np.ndindex(2, 2):
        path = tmp_path / ("train", "test")[part] / f"{k}.npz"
        path.parent.mkdir(exist_ok=True)
        index = drawn[k, part]
        with path.open("wb") as file:
            np.savez_compressed(file, data={"x": normalise(x[index]).numpy(), "y": y[index].numpy()})
    data, read = read_split(tmp_path, DATA)
    assert [part.tolist() for part in read.parts] == [sorted(drawn[k, 0].tolist()) for k in range(2)]
    assert torch.equal(data.test.x, x[np.sort(drawn[:, 1].ravel())])
