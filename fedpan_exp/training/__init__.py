"""Training one network on one stream of batches, with Lightning."""

from fedpan_exp.training.central import Epochs, epochs_done, train
from fedpan_exp.training.flat import FlatNet
from fedpan_exp.training.local import FabricSettings, Fit, LocalTrainer, Score
from fedpan_exp.training.module import Classifier, Training

__all__ = [
    "Classifier",
    "Epochs",
    "FabricSettings",
    "Fit",
    "FlatNet",
    "LocalTrainer",
    "Score",
    "Training",
    "epochs_done",
    "train",
]
