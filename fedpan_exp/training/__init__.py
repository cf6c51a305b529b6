"""Training one network on a stream of batches, with Lightning."""

from fedpan_exp.training.centralized import EpochBatches, EpochCheckpoint, TrainingProgress, read_progress, train
from fedpan_exp.training.devices import claim_gpu, gpu_of, processes_that_fit, visible_gpus
from fedpan_exp.training.distillation import distil, distillation_loss
from fedpan_exp.training.fabric import FabricSettings
from fedpan_exp.training.flat import FlatNet, FlatParameters
from fedpan_exp.training.local import EvalResult, FitResult, LocalTrainer
from fedpan_exp.training.module import Classifier, Training, classification_loss

__all__ = [
    "Classifier",
    "EpochBatches",
    "EpochCheckpoint",
    "EvalResult",
    "FabricSettings",
    "FitResult",
    "FlatNet",
    "FlatParameters",
    "LocalTrainer",
    "Training",
    "TrainingProgress",
    "claim_gpu",
    "classification_loss",
    "distil",
    "distillation_loss",
    "gpu_of",
    "processes_that_fit",
    "read_progress",
    "train",
    "visible_gpus",
]
