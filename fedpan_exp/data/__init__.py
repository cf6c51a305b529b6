"""Datasets as uint8 tensors, split over clients, served as mini-batches."""

from fedpan_exp.data.clients import Batch, Clients
from fedpan_exp.data.dataset import DatasetSettings
from fedpan_exp.data.images import Data, Images
from fedpan_exp.data.partition import KINDS, Rule, Split, split
from fedpan_exp.data.transforms import Pixels

__all__ = [
    "KINDS",
    "Batch",
    "Clients",
    "Data",
    "DatasetSettings",
    "Images",
    "Pixels",
    "Rule",
    "Split",
    "split",
]
