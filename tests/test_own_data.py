"""Images of the user's own: a folder per class, or arrays in an .npz file."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import fedpan_exp as fp
from fedpan_exp.data import ImageTensors, Split
from fedpan_exp.studies.shared.setup import load_and_split
from fedpan_exp.system.errors import UserError

TINY = ("model=mlp", "model.width=8", "fl_scene.K=2", "fl_scene.R=1", "fl_scene.E=1", "fl_scene.H=1", "ranks=1")


def write_images(folder: Path, images: int = 12, size: tuple[int, int] = (12, 10), mode: str = "RGB") -> None:
    folder.mkdir(parents=True)
    pixels = np.random.default_rng(images).integers(0, 256, (images, size[1], size[0], 3), np.uint8)
    for i, array in enumerate(pixels):
        Image.fromarray(array).convert(mode).save(folder / f"{i:02}.png")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for split in ("train", "test"):
        for label in ("cat", "dog", "eel"):
            write_images(tmp_path / "photos" / split / label)
    return tmp_path / "photos"


def test_a_folder_describes_itself_and_is_decoded_once(photos):
    settings = ("dataset=folder", f"dataset.root={photos}", *TINY)
    dataset = fp.experiment(*settings).dataset
    assert (dataset.shape, dataset.classes) == ([3, 10, 10], 3)
    data = dataset.load(seed=0)
    assert data.train.y.tolist() == data.test.y.tolist() == [0] * 12 + [1] * 12 + [2] * 12
    channels = data.train.x.float().transpose(0, 1).flatten(1) / 255
    assert dataset.mean == pytest.approx(channels.mean(1).tolist(), abs=1e-4)
    assert dataset.std == pytest.approx(channels.std(1).tolist(), abs=1e-3)
    assert (photos.parent / "photos.decoded.safetensors").exists()
    assert len(list(fp.federate(*settings))) == 1


def test_other_sizes_gray_images_and_a_fraction_for_the_test(tmp_path):
    for label in "ab":
        write_images(tmp_path / "scans" / label, mode="L")
    settings = ("dataset=folder", f"dataset.root={tmp_path}/scans", "dataset.size=8", "dataset.test_share=0.25", *TINY)
    dataset = fp.experiment(*settings).dataset
    assert dataset.shape == [1, 8, 8]
    first, second = dataset.load(seed=0), dataset.load(seed=1)
    assert (len(first.train), len(first.test)) == (18, 6)
    assert torch.equal(first.test.x, second.test.x)


def test_gray_images_of_16_bits_are_scaled_and_not_clipped(tmp_path):
    ramp = np.arange(0, 65536, 1024, np.uint16).reshape(8, 8)
    for label in "ab":
        (tmp_path / "scans" / label).mkdir(parents=True)
        for i in range(4):
            Image.fromarray(ramp).save(tmp_path / "scans" / label / f"{i}.png")
    data = fp.experiment("dataset=folder", f"dataset.root={tmp_path}/scans", *TINY).dataset.load(seed=0)
    assert data.train.x[0, 0].flatten().tolist() == list(range(0, 256, 4))


def test_the_images_and_not_their_place_are_the_identity(photos):
    def name(root: Path) -> str:
        settings = ("study=partition", "dataset=folder", f"dataset.root={root}", f"runs={photos.parent}/runs")
        return fp.run(*settings, "fl_scene.K=2").folder.name

    first = name(photos)
    photos.rename(photos.parent / "pictures")
    assert name(photos.parent / "pictures") == first
    write_images(photos.parent / "pictures" / "train" / "fox")
    assert name(photos.parent / "pictures") != first


def test_a_network_that_does_not_fit_is_refused_with_a_reason(photos):
    with pytest.raises(UserError, match="model=vgg11 halves the image 5 times and needs at least 32 pixels"):
        fp.experiment("dataset=folder", f"dataset.root={photos}", "model=vgg11")


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda root: (root / "train" / "cat" / "00.png").write_text("x"), "00.png cannot be decoded as an image"),
        (
            lambda root: Image.fromarray(np.eye(9, dtype=np.float32)).save(root / "train" / "cat" / "x.tiff"),
            "x.tiff cannot be decoded as an image .32 bits per pixel, whose range is not known",
        ),
        (lambda root: write_images(root / "test" / "fox"), "has fox, which train does not have"),
        (lambda root: write_images(root / "val" / "cat"), r"must have folders train/<class> and test/<class>"),
        (
            lambda root: (root / "train").rename(root.parent / "gone"),
            "images of at least 2 classes for training, got none",
        ),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused_in_one_line(photos, break_it, message):
    break_it(photos)
    with pytest.raises(UserError, match=message) as error:
        fp.experiment("dataset=folder", f"dataset.root={photos}")
    assert "\n" not in str(error.value)


def test_a_folder_with_one_class_or_without_images_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"dataset.root must be a folder .* got /nowhere"):
        fp.experiment("dataset=folder", "dataset.root=/nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="got no image"):
        fp.experiment("dataset=folder", f"dataset.root={tmp_path}/empty")
    write_images(tmp_path / "one" / "cat", images=2)
    with pytest.raises(UserError, match="at least 2 classes for training, got cat"):
        fp.experiment("dataset=folder", f"dataset.root={tmp_path}/one")


def arrays(**changes: np.ndarray) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (30, 6, 6), np.uint8)
    content = {"x_train": x, "y_train": np.arange(30) % 3, "x_test": x[:9], "y_test": np.arange(9) % 3} | changes
    return {name: array for name, array in content.items() if array is not None}


def test_arrays_in_every_layout_are_the_same_images(tmp_path):
    plain = arrays()
    x, y = plain["x_train"], plain["y_train"]
    layouts = {
        "keras": plain,
        "channels_last": arrays(x_train=x[..., None], x_test=x[:9, ..., None]),
        "channels_first": arrays(x_train=x[:, None], x_test=x[:9, None]),
        "floats": arrays(x_train=x / 255, x_test=x[:9] / 255),
        "medmnist": {"train_images": x, "train_labels": y[:, None], "test_images": x[:9], "test_labels": y[:9, None]},
    }
    digests = set()
    for name, content in layouts.items():
        np.savez(tmp_path / f"{name}.npz", **content)
        digests.add(fp.experiment("dataset=npz", f"dataset.root={tmp_path}/{name}.npz").dataset.digest)
    assert len(digests) == 1


def test_test_images_without_labels_and_a_single_array_are_refused(tmp_path):
    np.savez(tmp_path / "own.npz", **arrays(y_test=None))
    np.save(tmp_path / "own.npy", arrays()["x_train"])
    for name, message in {
        "own.npz": "must have the labels y_test of its images x_test",
        "own.npy": "an .npz file",
    }.items():
        with pytest.raises(UserError, match=message):
            fp.experiment("dataset=npz", f"dataset.root={tmp_path}/{name}")


def test_users_in_a_file_are_natural_clients(tmp_path):
    x, y = arrays()["x_train"], arrays()["y_train"]
    np.savez(tmp_path / "own.npz", x=x, y=y, users=np.array(["ann", "bob", "cid"])[np.arange(30) // 10])
    settings = ("dataset=npz", f"dataset.root={tmp_path}/own.npz", "fl_scene=natural", "dataset.test_share=0.1")
    data, split, _ = load_and_split(fp.experiment(*settings))
    assert isinstance(split, Split)
    assert isinstance(data.train, ImageTensors)
    assert data.users == ("ann", "bob", "cid")
    assert len(split.parts) == 3
    assert sum(map(len, split.parts)) == 27


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": np.zeros(3)}, "must have arrays named x_train, y_train or .* got a"),
        (arrays(x_train=np.zeros((30, 6, 6))), None),
        (arrays(x_train=np.full((30, 6, 6), 2.0)), r"must have images .* got x_train \[30, 1, 6, 6\] float64"),
        (arrays(y_train=np.arange(29)), r"y_train \[29\] int64"),
        (arrays(y_train=np.arange(30) - 1), "must have labels from 0, got -1 in y_train"),
        (arrays(y_train=np.zeros(30, int)), "dataset.classes must be at least 2, got 1"),
        (arrays(x_test=np.zeros((9, 5, 5), np.uint8)), "test images of another shape"),
        (arrays(users=np.zeros(3)), "has 3 users for 30 images"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused_in_one_line(tmp_path, content, message):
    np.savez(tmp_path / "own.npz", **content)
    if message is None:
        assert fp.experiment("dataset=npz", f"dataset.root={tmp_path}/own.npz").dataset.std == [1.0]
        return
    with pytest.raises(UserError, match=message):
        fp.experiment("dataset=npz", f"dataset.root={tmp_path}/own.npz").dataset.load(seed=0)


def test_a_label_that_only_the_test_set_has_is_a_class(tmp_path):
    np.savez(tmp_path / "own.npz", **arrays(y_test=np.arange(9) % 4))
    settings = ("dataset=npz", f"dataset.root={tmp_path}/own.npz", *TINY)
    assert fp.experiment(*settings).dataset.classes == 4
    assert [round.index for round in fp.federate(*settings) if round.test().accuracy <= 1] == [1]
    with pytest.raises(UserError, match=r"dataset.classes must be at least 4, .* got 3"):
        next(fp.federate(*settings, "dataset.classes=3"))


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (
            "0, 2, (9, 1, 4, 4)",
            "0, 2, (9, 1, 5, 5)",
            r"test images of shape \[1, 4, 4\], as for training, got \[1, 5, 5\]",
        ),
        ("-1, 2, (9, 1, 4, 4)", "0, 2, (9, 1, 4, 4)", "must have labels from 0, got -1"),
        ("0, 2, (0, 1, 4, 4)", "0, 2, (9, 1, 4, 4)", "must have training images, got none"),
        ("0, 2, (9, 4, 4)", "0, 2, (9, 1, 4, 4)", r"must have uint8 images \[N, C, H, W\]"),
    ],
)
def test_a_dataset_of_a_plugin_that_cannot_be_used_is_refused_in_one_line(tmp_path, train, test, message):
    (tmp_path / "mine.py").write_text(f"""
import torch
from fedpan_exp.data import DatasetSplits, ImageTensors

def images(low, high, shape):
    return ImageTensors(torch.zeros(shape, dtype=torch.uint8), torch.arange(shape[0]) % (high - low) + low)

DATASETS = {{"mine": lambda root: DatasetSplits(images({train}), images({test}))}}
""")
    with pytest.raises(UserError, match=message) as error:
        fp.experiment(f"plugins=[{tmp_path}/mine.py]", "dataset=mine")
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_npz_is_refused(tmp_path):
    (tmp_path / "own.npz").write_text("x")
    for path in ("own.npz", "none.npz"):
        with pytest.raises(UserError, match=r"dataset.root must be an .npz file, got"):
            fp.experiment("dataset=npz", f"dataset.root={tmp_path}/{path}")
