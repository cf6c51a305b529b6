"""Datasets as uint8 tensors, split over clients, served as mini-batches."""

from fedpan_exp.data.clients import Batch, Clients
from fedpan_exp.data.dataset import DATASETS, DatasetSettings, load_dataset
from fedpan_exp.data.images import DatasetSplits, ImageTensors
from fedpan_exp.data.partition import KINDS, PartitionConfig, Split, split
from fedpan_exp.data.reserve import withhold
from fedpan_exp.data.transforms import ImageTransform

__all__ = [
    "DATASETS",
    "KINDS",
    "Batch",
    "Clients",
    "DatasetSettings",
    "DatasetSplits",
    "ImageTensors",
    "ImageTransform",
    "PartitionConfig",
    "Split",
    "load_dataset",
    "split",
    "withhold",
]
