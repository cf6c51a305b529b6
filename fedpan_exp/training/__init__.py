"""Training one network on one stream of batches, with Lightning."""

from fedpan_exp.training.centralized import Begun, Epochs, Keeper, begun, train
from fedpan_exp.training.flat import FlatNet, FlatParameters
from fedpan_exp.training.local import EvalResult, FabricSettings, FitResult, LocalTrainer
from fedpan_exp.training.module import Classifier, Training

__all__ = [
    "Begun",
    "Classifier",
    "Epochs",
    "EvalResult",
    "FabricSettings",
    "FitResult",
    "FlatNet",
    "FlatParameters",
    "Keeper",
    "LocalTrainer",
    "Training",
    "begun",
    "train",
]
