"""Datasets as uint8 tensors, split over clients, served as mini-batches."""

from fedpan_exp.data.clients import Batch, Clients
from fedpan_exp.data.dataset import DATASETS, DatasetSettings, load_dataset
from fedpan_exp.data.images import DatasetSplits, ImageTensors
from fedpan_exp.data.own import OWN_DATA, OwnData
from fedpan_exp.data.partition import VIRTUAL, PartitionConfig, Split, VirtualParts, kinds, split
from fedpan_exp.data.reserve import withhold
from fedpan_exp.data.split_file import FORMATS, file_hash, read_split, write_split
from fedpan_exp.data.transforms import ImageTransform

__all__ = [
    "DATASETS",
    "FORMATS",
    "OWN_DATA",
    "VIRTUAL",
    "Batch",
    "Clients",
    "DatasetSettings",
    "DatasetSplits",
    "ImageTensors",
    "ImageTransform",
    "OwnData",
    "PartitionConfig",
    "Split",
    "VirtualParts",
    "file_hash",
    "kinds",
    "load_dataset",
    "read_split",
    "split",
    "withhold",
    "write_split",
]
