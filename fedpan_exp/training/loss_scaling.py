"""Loss scaling, which `fabric.precision=16-mixed` needs: small gradients would be 0 in 16 bits.

fabric.backward multiplies the loss by the scale. Gradients are divided by it immediately, so that what algorithms
add to them and the bound on their norm are in their own units. A step whose gradients overflow is skipped, and the
scale is halved; the host waits for neither.
"""

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:  # Lightning takes seconds to import
    from lightning.fabric.plugins import Precision

INITIAL_SCALE = 2.0**12  # gradients up to 16 do not overflow, so that a client's few steps are rarely skipped


class LossScaling:
    """The scaler of a Fabric's precision. For precisions without one, gradients and steps are plain."""

    def __init__(self, precision: "Precision"):
        self._precision = precision
        self._scaler: Any = getattr(precision, "scaler", None)
        self._initial = {**self._scaler.state_dict(), "scale": INITIAL_SCALE} if self._scaler else {}

    @property
    def is_active(self) -> bool:
        return self._scaler is not None

    def reset(self) -> None:
        """Start from the initial scale, whatever this process has trained before."""
        if self.is_active:
            self._scaler.load_state_dict(self._initial)

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients by the scale, and note on the device whether one has overflowed."""
        if self.is_active:
            self._scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Take a step, unless a gradient has overflowed; adapt the scale."""
        self._precision.optimizer_step(optimizer)
