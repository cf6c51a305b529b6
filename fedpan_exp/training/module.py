"""The training recipe, independent of the loop that runs it.

The LightningModule states loss, optimizer, learning-rate warm-up and clipping once. `lightning.Trainer` calls its hooks
for centralized training (centralized.py). The Fabric loop for clients (local.py) takes the same pieces from it, but
calls the federated algorithm's loss.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from lightning import LightningModule
from torch import Tensor, nn
from torch.nn import functional as F

from fedpan_exp.models import Network
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
    fast: bool = True  # false: plain torch.optim instead of fast_sgd.py
    decay_to: str = "zero"  # where weight decay pulls to; random: a point drawn like the initial weights
    neuron_rates: str = "plain"  # compensated: those of PAN∘ times 1 / (1 + e)^2

    def __post_init__(self) -> None:
        require(math.isfinite(self.lr) and self.lr > 0, "training.lr", "above 0", self.lr)
        require(0 <= self.momentum < 1, "training.momentum", "in [0, 1)", self.momentum)
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


class Classifier(LightningModule):
    """A network with its training settings; `optimizer` is "sgd" or "adam"."""

    def __init__(self, net: Network, training_settings: Training, optimizer: str = "sgd"):
        super().__init__()
        self.net, self.settings, self.optimizer_name = net, training_settings, optimizer
        self._rules: list[tuple[Tensor, Tensor | None, Tensor | None]] = []  # parameter, decay point, rates

    def forward(self, x: Tensor, with_features: bool = False) -> Any:
        return self.net(x, with_features)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        loss = classification_loss(self(x), y)
        self.log("train/loss", loss, on_step=False, on_epoch=True, batch_size=len(y))  # a mean over samples
        return loss

    @property
    def shapes_gradients(self) -> bool:
        """Whether shape_gradients() has an effect; it then applies weight decay instead of the optimizer."""
        return bool(self.net.rates or self.net.decay_point)

    @torch.no_grad()
    def shape_gradients(self) -> None:
        """Add weight decay toward the network's decay point, then scale by the learning rates of its neurons.

        An algorithm's own terms (FedProx, Scaffold) come after this: they are not scaled.
        """
        if not self._rules:  # once, when the parameters are on their device
            rates, points = self.net.rates, self.net.decay_point
            self._rules = [
                (p, points[name].to(p) if name in points else None, rates[name].to(p) if name in rates else None)
                for name, p in self.net.named_parameters()
            ]
        for weights, point, factors in self._rules:
            if weights.grad is None:
                continue
            if self.settings.weight_decay:
                offset = weights if point is None else weights - point
                weights.grad.add_(offset, alpha=self.settings.weight_decay)
            if factors is not None:
                weights.grad.mul_(factors)

    @property
    def _decays_itself(self) -> bool:
        """Whether lightning.Trainer's optimizer must not decay: it would not spare fixed entries."""
        return self.shapes_gradients or bool(self.net.fixed)

    def on_after_backward(self) -> None:
        """Called by lightning.Trainer. LocalTrainer.fit does the same, but freezes by FlatNet."""
        if self._decays_itself:
            self.shape_gradients()
        for name, fixed in self.net.fixed.items():
            gradient = self.net.get_parameter(name).grad
            if gradient is not None:
                gradient.masked_fill_(fixed.to(gradient.device), 0)

    def clip_gradient_norm(self) -> None:
        if self.settings.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters(), self.settings.clip)

    def configure_gradient_clipping(self, *_: Any, **__: Any) -> None:
        self.clip_gradient_norm()

    def make_optimizer(self, weight_decay: float | None = None) -> torch.optim.Optimizer:
        """A new optimizer without state; `weight_decay` replaces the settings'."""
        s = self.settings
        decay = s.weight_decay if weight_decay is None else weight_decay
        if self.optimizer_name == "adam":
            return torch.optim.Adam(self.parameters(), s.lr, weight_decay=decay, fused=True)
        return torch.optim.SGD(self.parameters(), s.lr, momentum=s.momentum, weight_decay=decay, fused=True)

    def configure_optimizers(self) -> Any:
        optimizer = self.make_optimizer(0.0 if self._decays_itself else None)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: self.settings.lr_at(step) / self.settings.lr
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
