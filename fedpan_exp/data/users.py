"""Datasets that record who made each sample: sample some of the users, hold out part of each user's samples."""

import torch

from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.rng import rng


def draw_users(data: DatasetSplits, fraction: float, seed: int) -> DatasetSplits:
    """Restrict the training set to a random fraction of the users, renumbered from 0."""
    if data.train.users is None:
        if fraction < 1:
            raise ConfigError(f"dataset.user_share must be 1 for a dataset without user ids, got {fraction}")
        return data
    count = max(1, round(fraction * len(data.users)))
    drawn = torch.randperm(len(data.users), generator=rng(seed, "users"))[:count].sort().values
    new_id = torch.full((len(data.users),), -1)
    new_id[drawn] = torch.arange(count)
    train = data.train[new_id[data.train.users] >= 0]
    train.users = new_id[train.users]
    return DatasetSplits(train, data.test, tuple(data.users[i] for i in drawn.tolist()))


def hold_out(data: DatasetSplits, fraction: float, seed: int) -> DatasetSplits:
    """Move a fraction of each user's samples to the test set."""
    users = data.train.users
    if users is None or fraction == 0:
        return data
    order = torch.randperm(len(users), generator=rng(seed, "user test"))
    order = order[users[order].argsort(stable=True)]  # grouped by user, each group in random order
    sizes = users.bincount(minlength=len(data.users))
    rank = torch.arange(len(users)) - (sizes.cumsum(0) - sizes)[users[order]]  # of a sample within its user's group
    is_test = rank < (sizes * fraction).round().clamp(max=sizes - 1)[users[order]]  # every user keeps a training sample
    return DatasetSplits(data.train[order[~is_test]], data.train[order[is_test]], data.users)
