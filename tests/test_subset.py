"""dataset.samples: a part of a dataset that has its class proportions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import experiment
from fedpan_exp.data.images import ImageTensors
from fedpan_exp.data.subset import draw_subset
from fedpan_exp.sweeping.jobs import read_jobs
from fedpan_exp.system.errors import ConfigError


def images_with(counts: list[int]) -> ImageTensors:
    """Images whose one pixel row is their index, in random order of the classes."""
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
    return ImageTensors(torch.arange(len(labels)).view(-1, 1, 1, 1), labels)


@settings(max_examples=50, deadline=None)
@given(counts=st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any), data=st.data())
def test_classes_keep_their_proportions_to_within_one_sample(counts, data):
    images = images_with(counts)
    samples = data.draw(st.integers(1, len(images)))
    subset = draw_subset(images, "dataset.samples", samples, seed=0)
    index = subset.x.flatten()
    assert len(subset) == len(index.unique()) == samples
    assert index.equal(index.sort().values)  # the original order
    assert subset.y.equal(images.y[index])
    exact = torch.tensor(counts) * samples / len(images)
    assert (subset.y.bincount(minlength=len(counts)) - exact).abs().max() <= 1


def test_equal_classes_stay_equal_and_the_seed_draws():
    images = images_with([50] * 10)
    first, again, other = (draw_subset(images, "dataset.samples", 100, seed) for seed in (0, 0, 1))
    assert first.y.bincount().tolist() == [10] * 10
    assert first.x.equal(again.x)
    assert not first.x.equal(other.x)
    assert draw_subset(images, "dataset.samples", None, 0) is images
    with pytest.raises(ConfigError, match=r"dataset\.samples must be at most 500, the number of images, or null"):
        draw_subset(images, "dataset.samples", 501, 0)


def test_the_settings_cut_the_training_and_the_test_set():
    cut = experiment("dataset=digits", "dataset.samples=500", "dataset.test_samples=100").dataset.load(seed=0)
    assert (len(cut.train), len(cut.test)) == (500, 100)
    train_only = experiment("dataset=digits", "dataset.samples=500").dataset.load(seed=0)
    assert (len(train_only.train), len(train_only.test)) == (500, 360)


def test_a_subset_is_another_run():
    names = [
        job.name for job in read_jobs("dataset=digits", "dataset.samples=null,500", "dataset.test_samples=null,100")
    ]
    assert len(set(names)) == 4
    assert [job.name for job in read_jobs("dataset=digits")] == names[:1]
