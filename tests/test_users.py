"""Sampling users by seed, and holding out part of each user's samples."""

import pytest
import torch

from conftest import random_images
from fedpan_exp.data.images import DatasetSplits, ImageTensors
from fedpan_exp.data.users import draw_users, hold_out
from fedpan_exp.system.errors import ConfigError


def data_of_users(samples: list[int]) -> DatasetSplits:
    images = random_images(sum(samples))
    users = torch.arange(len(samples)).repeat_interleave(torch.tensor(samples))
    images.users = users
    images.y = users * 1000 + torch.arange(len(users))  # encodes the user and the sample
    return DatasetSplits(images, images[users < 0], tuple(f"user {k}" for k in range(len(samples))))


def test_drawn_users_keep_their_samples():
    data = data_of_users([5, 1, 8, 3, 3, 9, 2, 4, 6, 7])
    drawn = draw_users(data, 0.3, seed=0)
    assert len(drawn.users) == 3
    assert drawn.train.users.unique().tolist() == [0, 1, 2]
    for sample, user in zip(drawn.train.y.tolist(), drawn.train.users.tolist(), strict=True):
        assert drawn.users[user] == f"user {sample // 1000}"
    ids = [int(name.split()[1]) for name in drawn.users]
    assert len(drawn.train) == sum([5, 1, 8, 3, 3, 9, 2, 4, 6, 7][k] for k in ids)
    assert draw_users(data, 0.3, seed=0).users == drawn.users != draw_users(data, 0.3, seed=1).users
    assert draw_users(data, 1.0, seed=0).digest() == data.digest()


def test_a_part_of_each_users_samples_is_held_out():
    data = data_of_users([10, 5, 1, 23])
    split = hold_out(data, 0.2, seed=0)
    assert split.test.users.bincount(minlength=4).tolist() == [2, 1, 0, 5]
    assert split.train.users.bincount().tolist() == [8, 4, 1, 18]
    assert sorted([*split.train.y.tolist(), *split.test.y.tolist()]) == data.train.y.tolist()
    for part in (split.train, split.test):
        assert torch.equal(part.y // 1000, part.users)
        assert torch.equal(part.x, data.train.x[part.y % 1000])
    smallest = hold_out(data, 0.9, seed=0).train
    assert smallest.users.bincount().tolist() == [1, 1, 1, 2]  # every user keeps a training sample
    assert hold_out(data, 0.2, seed=1).test.y.tolist() != split.test.y.tolist()


def test_a_dataset_without_users():
    data = DatasetSplits(random_images(10), random_images(5))
    assert hold_out(draw_users(data, 1.0, 0), 0.5, 0) is data
    with pytest.raises(ConfigError, match=r"dataset.user_share must be 1 for a dataset without user ids"):
        draw_users(data, 0.5, 0)


def test_users_survive_saving_and_loading():
    data = data_of_users([3, 4])
    loaded = DatasetSplits.from_tensors(data.tensors(), data.metadata())
    assert loaded.users == data.users
    assert torch.equal(loaded.train.users, data.train.users)
    other = DatasetSplits(ImageTensors(data.train.x, data.train.y, data.train.users.flip(0)), data.test, data.users)
    assert other.digest() != data.digest()
