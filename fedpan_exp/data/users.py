"""Datasets that know who made each sample: draw some of the users, and hold out a part of each one's samples."""

import torch

from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.rng import rng


def draw_users(data: DatasetSplits, share: float, seed: int) -> DatasetSplits:
    """Only the samples of a share of the users."""
    if data.train.users is None:
        if share < 1:
            raise ConfigError(f"dataset.user_share must be 1 for a dataset that does not know its users, got {share}")
        return data
    count = max(1, round(share * len(data.users)))
    drawn = torch.randperm(len(data.users), generator=rng(seed, "users"))[:count].sort().values
    number = torch.full((len(data.users),), -1)
    number[drawn] = torch.arange(count)
    train = data.train[number[data.train.users] >= 0]
    train.users = number[train.users]
    return DatasetSplits(train, data.test, tuple(data.users[i] for i in drawn.tolist()))


def hold_out(data: DatasetSplits, share: float, seed: int) -> DatasetSplits:
    """A share of each user's samples becomes the test set."""
    users = data.train.users
    if users is None or share == 0:
        return data
    order = torch.randperm(len(users), generator=rng(seed, "user test"))
    order = order[users[order].argsort(stable=True)]  # user by user, each in random order
    sizes = users.bincount(minlength=len(data.users))
    place = torch.arange(len(users)) - (sizes.cumsum(0) - sizes)[users[order]]  # of a sample within its user's
    held = place < (sizes * share).round().clamp(max=sizes - 1)[users[order]]  # none is left without training data
    return DatasetSplits(data.train[order[~held]], data.train[order[held]], data.users)
