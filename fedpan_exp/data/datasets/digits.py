"""scikit-learn's handwritten digits (8x8): no download, for tests and small machines."""

import torch

from fedpan_exp.data.images import DatasetSplits, ImageTensors
from fedpan_exp.system.rng import rng

MAX_PIXEL = 16
TEST_SAMPLES = 360


def load_digits() -> DatasetSplits:
    from sklearn.datasets import load_digits as load  # slow import, only needed here

    bunch = load()
    x = torch.from_numpy(bunch.images / MAX_PIXEL * 255).round().to(torch.uint8).unsqueeze(1)
    y = torch.from_numpy(bunch.target).long()
    order = torch.randperm(len(y), generator=rng(0, "digits"))  # one fixed split, independent of the run's seed
    test, train = order[:TEST_SAMPLES], order[TEST_SAMPLES:]
    return DatasetSplits(ImageTensors(x[train], y[train]), ImageTensors(x[test], y[test]))
