"""Training one network on a stream of batches, with Lightning."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedpan_exp.training.devices import claim_gpu, gpu_of, processes_that_fit, visible_gpus
from fedpan_exp.training.distillation import distil, distillation_loss
from fedpan_exp.training.fabric import FabricSettings
from fedpan_exp.training.flat import FlatNet, FlatParameters
from fedpan_exp.training.local import EvalResult, FitResult, LocalTrainer
from fedpan_exp.training.recipe import Training, classification_loss

if TYPE_CHECKING:
    from fedpan_exp.training.centralized import EpochBatches, EpochCheckpoint, TrainingProgress, read_progress, train
    from fedpan_exp.training.module import Classifier

NEED_LIGHTNING = {  # name -> its module, imported when it is first used: Lightning takes seconds
    "Classifier": "module",
    "EpochBatches": "centralized",
    "EpochCheckpoint": "centralized",
    "TrainingProgress": "centralized",
    "read_progress": "centralized",
    "train": "centralized",
}

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


def __getattr__(name: str) -> Any:
    if name in NEED_LIGHTNING:
        return getattr(import_module(f"{__name__}.{NEED_LIGHTNING[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
