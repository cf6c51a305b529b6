"""Training one network on one stream of batches, with Lightning."""

from fedpan_exp.training.centralized import Begun, Epochs, Keeper, begun, train
from fedpan_exp.training.flat import FlatNet, Vectors
from fedpan_exp.training.local import FabricSettings, Fit, LocalTrainer, Score
from fedpan_exp.training.module import Classifier, Training

__all__ = [
    "Begun",
    "Classifier",
    "Epochs",
    "FabricSettings",
    "Fit",
    "FlatNet",
    "Keeper",
    "LocalTrainer",
    "Score",
    "Training",
    "Vectors",
    "begun",
    "train",
]
