"""Everything in local training that trades elegance for speed; `training.fast=false` does without it.

Federated learning takes many small steps, so the overhead per step matters. Measured on two cores:

- `LocalSGD`: torch.optim takes 90 µs per step to call its fused kernel, a sixth of a step of a small network.
- `FusedMomentumLinear`: without it, the gradient of a large layer is written to memory only to be read by the
  optimizer, and two processes compete for the cache.
- `keep_freed_memory`: otherwise gradients are returned to the system at every step and come back as a thousand page
  faults, 5% of a step of a network with 3 million weights.
"""

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

# Below this many weights, calling our backward from Python takes longer than it saves.
MIN_FUSED_WEIGHTS = 250_000

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's mallopt
LARGEST_MMAP_THRESHOLD = 32 * 1024**2  # the most that mallopt accepts
NEVER = 2**31 - 1


class FusedMomentumLinear(nn.Linear):
    """A linear layer whose backward accumulates SGD's momentum.

    While `grad_momentum` is a number, backward computes weight.grad <- grad_momentum x weight.grad + gradient. The
    gradient is a matrix product, and BLAS adds a product to a matrix while computing it.
    """

    grad_momentum: float | None = None

    @classmethod
    def from_linear(cls, layer: nn.Linear) -> "FusedMomentumLinear":
        """The same layer, with the same parameters."""
        with torch.device("meta"):
            fused = cls(layer.in_features, layer.out_features, bias=layer.bias is not None)
        fused.weight, fused.bias = layer.weight, layer.bias
        return fused

    def forward(self, x: Tensor) -> Tensor:
        if self.grad_momentum is None or not torch.is_grad_enabled():
            return super().forward(x)
        return _AccumulateMomentum.apply(x, self.weight, self.bias, self)


class _AccumulateMomentum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, layer: FusedMomentumLinear) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.layer = layer
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        ctx.layer.weight.grad.addmm_(gradient.t(), x, beta=ctx.layer.grad_momentum)
        return gradient @ weight if ctx.needs_input_grad[0] else None, None, gradient.sum(0), None


def fuse_large_linears(net: nn.Module) -> list[FusedMomentumLinear]:
    """Replace the large linear layers of a network by layers that accumulate momentum; return those."""
    for name, layer in list(net.named_modules()):
        # Of exactly this class: a subclass, such as a masked layer, computes something else.
        if type(layer) is nn.Linear and layer.weight.numel() >= MIN_FUSED_WEIGHTS:
            net.set_submodule(name, FusedMomentumLinear.from_linear(layer))
    return [module for module in net.modules() if isinstance(module, FusedMomentumLinear)]


class LocalSGD:
    """torch.optim.SGD with momentum, reset for every client without allocating memory.

    It takes the same steps bit for bit, except for the weights of `fused` layers, where rounding differs.
    """

    def __init__(self, parameters: Sequence[Tensor], momentum: float, fused: Sequence[FusedMomentumLinear] = ()):
        self._momentum, self._weight_decay, self._is_first_step = momentum, 0.0, True
        self._momenta = [torch.zeros_like(p.detach()) for p in parameters]
        # Per parameter: the parameter, which has the gradient, its values outside of autograd, its momentum.
        entries = [(p, p.detach(), m) for p, m in zip(parameters, self._momenta, strict=True)]
        layers = {layer.weight: layer for layer in fused}
        self._entries = [entry for entry in entries if entry[0] not in layers]
        self._all_fused = [(layers[p], weights, momentum) for p, weights, momentum in entries if p in layers]
        self._fused = self._all_fused  # those that train at present

    @contextmanager
    def reset(self, weight_decay: float) -> Iterator[None]:
        """Start from zero momentum; on exit, leave no gradients behind."""
        self._weight_decay, self._is_first_step = weight_decay, True
        # The momentum of a frozen layer, left over from the previous client, must not move it.
        self._fused = [entry for entry in self._all_fused if entry[0].weight.requires_grad]
        for layer, _, momentum in self._fused:
            layer.weight.grad, layer.grad_momentum = momentum, 0.0
        try:
            yield
        finally:
            for layer, _, _ in self._fused:
                layer.weight.grad = layer.grad_momentum = None

    def step(self, lr: float) -> None:
        """Take a step along the gradients, and clear them."""
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
        for layer, weights, momentum in self._fused:
            if self._weight_decay:
                momentum.add_(weights, alpha=self._weight_decay)
            weights.add_(momentum, alpha=-lr)
            layer.grad_momentum = self._momentum
        self._is_first_step = False

    def momenta(self) -> list[Tensor]:
        """One tensor per parameter; none before the first step after a reset."""
        return [] if self._is_first_step or not self._momentum else self._momenta


def keep_freed_memory() -> None:
    """Let the process keep memory that a step frees for the next step; bounded by peak use."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only glibc has it
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, NEVER)
