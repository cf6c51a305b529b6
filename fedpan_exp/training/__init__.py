"""Training one network on one stream of batches, with Lightning."""

from fedpan_exp.training.flat import FlatNet, Vectors
from fedpan_exp.training.local import FabricSettings, Fit, LocalTrainer, Score
from fedpan_exp.training.module import Classifier, Training

__all__ = ["Classifier", "FabricSettings", "Fit", "FlatNet", "LocalTrainer", "Score", "Training", "Vectors"]
