"""Local training that trades elegance for speed; `training.fast=false` does without it, and without `onednn`.

Federated learning takes many small steps, so the overhead per step matters. Measured on two cores:

- `LocalSGD`: torch.optim takes 90 µs per step to call its fused kernel, a sixth of a step of a small network.
- `clip_gradients`: torch's clip_grad_norm_ also multiplies gradients that are below the largest norm.
- `keep_freed_memory`: otherwise gradients are returned to the system at every step and come back as a thousand page
  faults, 5% of a step of a network with 3 million weights.
"""

import ctypes
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fedpan_exp.training.onednn import OneDNNLinear, joint_bound

TORCHS_EPSILON = 1e-6  # which clip_grad_norm_ adds to the norm

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's mallopt
LARGEST_MMAP_THRESHOLD = 32 * 1024**2  # the most that mallopt accepts
NEVER = 2**31 - 1


class LocalSGD:
    """torch.optim.SGD with momentum, reset for every client without allocating memory: the same steps, bit for bit."""

    def __init__(self, parameters: Sequence[Tensor], momentum: float):
        self._momentum, self._weight_decay, self._is_first_step = momentum, 0.0, True
        self._momenta = [torch.zeros_like(p.detach()) for p in parameters]
        # Per parameter: the parameter, which has the gradient, its values outside of autograd, its momentum.
        self._entries = [(p, p.detach(), m) for p, m in zip(parameters, self._momenta, strict=True)]

    @contextmanager
    def reset(self, weight_decay: float) -> Iterator[None]:
        """Start from zero momentum; on exit, leave no gradients behind."""
        self._weight_decay, self._is_first_step = weight_decay, True
        try:
            yield
        finally:
            for parameter, _, _ in self._entries:
                parameter.grad = None

    def step(self, lr: float) -> None:
        """Take a step along the gradients, and clear them."""
        # A frozen parameter has no gradient; the momentum left over from the previous client must not move it.
        entries = [entry for entry in self._entries if entry[0].grad is not None]
        torch._fused_sgd_(
            [weights for _, weights, _ in entries],
            [parameter.grad for parameter, _, _ in entries],  # type: ignore[misc]
            [momentum for _, _, momentum in entries] if self._momentum else [],
            weight_decay=self._weight_decay,
            momentum=self._momentum,
            lr=lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=self._is_first_step,
        )
        for parameter, _, _ in entries:
            parameter.grad = None
        self._is_first_step = False

    def momenta(self) -> list[Tensor]:
        """One tensor per parameter; none before the first step after a reset."""
        return [] if self._is_first_step or not self._momentum else self._momenta


def clip_gradients(gradients: list[Tensor], largest_norm: float | None, wide: Sequence[OneDNNLinear] = ()) -> None:
    """Scale gradients, in place, such that their joint norm is at most `largest_norm`; None: do nothing.

    `wide` are the layers that know a bound of their gradient's norm.
    """
    if largest_norm is None or joint_bound(gradients, wide) <= largest_norm:
        return
    norms = torch._foreach_norm(gradients)
    on_cpu = gradients[0].device.type == "cpu"  # a GPU would have to wait for the comparison
    if on_cpu and math.hypot(*(norm.item() for norm in norms)) <= largest_norm:
        return
    divisor = (torch.stack(norms).norm() + TORCHS_EPSILON) / largest_norm
    torch._foreach_div_(gradients, divisor.clamp_(min=1.0))


def keep_freed_memory() -> None:
    """Let the process keep memory that a step frees for the next step; bounded by peak use."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only glibc has it
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, NEVER)
