"""The training recipe, independent of the loop that runs it.

The LightningModule states loss, optimizer, learning-rate warm-up and clipping once. `lightning.Trainer` calls its hooks
for centralized training (centralized.py). The Fabric loop for clients (local.py) takes the same pieces from it, but
calls the federated algorithm's loss.
"""

from typing import Any

import torch
from lightning import LightningModule
from torch import Tensor, nn

from fedpan_exp.models import Network
from fedpan_exp.training.recipe import Training, classification_loss


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
