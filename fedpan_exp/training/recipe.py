"""The settings of local training, and its loss. Composing an experiment needs these, but not Lightning."""

import math
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from fedpan_exp.system.errors import require, require_choice


@dataclass
class Training:
    """Local training: SGD whose momentum and warm-up start over for every client and round."""

    lr: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 0.0
    clip: float | None = None  # largest norm of the gradient
    warmup: str = "steps"  # over the first steps of each client's round, over the first rounds of the run, or none
    warmup_length: int = 10
    fast: bool = True  # false: plain torch instead of fast_sgd.py and onednn.py
    decay_to: str = "zero"  # where weight decay pulls to; random: a point drawn like the initial weights
    neuron_rates: str = "plain"  # compensated: those of PAN∘ times 1 / (1 + e)^2

    def __post_init__(self) -> None:
        require(math.isfinite(self.lr), "training.lr", "finite", self.lr)
        require(self.lr > 0, "training.lr", "above 0", self.lr)
        require(0 <= self.momentum < 1, "training.momentum", "in [0, 1)", self.momentum)
        require(math.isfinite(self.weight_decay), "training.weight_decay", "finite", self.weight_decay)
        require(self.weight_decay >= 0, "training.weight_decay", "at least 0", self.weight_decay)
        require(self.clip is None or self.clip > 0, "training.clip", "above 0, or null", self.clip)
        require_choice("training.warmup", self.warmup, ("steps", "rounds", "none"))
        require(self.warmup_length >= 1, "training.warmup_length", "at least 1", self.warmup_length)
        require_choice("training.decay_to", self.decay_to, ("zero", "random"))
        decays = self.decay_to == "zero" or self.weight_decay > 0
        require(decays, "training.weight_decay", "above 0 with training.decay_to=random", self.weight_decay)
        require_choice("training.neuron_rates", self.neuron_rates, ("plain", "compensated"))

    def lr_at(self, step: int, round_idx: int = 1) -> float:
        """The learning rate of a step (from 0) in a round (from 1)."""
        progress = {"steps": step + 1, "rounds": round_idx, "none": self.warmup_length}[self.warmup]
        return self.lr * min(1.0, progress / self.warmup_length)


def classification_loss(logits: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """Cross entropy of logits [N, classes] with labels [N]."""
    return F.cross_entropy(logits, y, reduction=reduction)
