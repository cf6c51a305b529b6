"""Everything in local training that trades elegance for speed; `training.fast=false` does without it.

Federated learning takes many small steps, so the overhead per step matters. Measured on two cores:

- `LocalSGD`: torch.optim takes 90 µs per step to call its fused kernel, a sixth of a step of a small network.
- `FusedMomentumLinear`: without it, the gradient of a large layer is written to memory only to be read by the
  optimizer, and two processes compete for the cache. Clipping needs the norm of that gradient, but not the gradient.
- `keep_freed_memory`: otherwise gradients are returned to the system at every step and come back as a thousand page
  faults, 5% of a step of a network with 3 million weights.
"""

import ctypes
import math
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

TORCHS_EPSILON = 1e-6  # which clip_grad_norm_ adds to the norm

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's mallopt
LARGEST_MMAP_THRESHOLD = 32 * 1024**2  # the most that mallopt accepts
NEVER = 2**31 - 1


class FusedMomentumLinear(nn.Linear):
    """A linear layer whose backward accumulates SGD's momentum.

    While `grad_momentum` is a number, backward computes weight.grad <- grad_momentum x weight.grad + gradient. The
    gradient is a matrix product, and BLAS adds a product to a matrix while computing it. If the gradient is to be
    clipped, backward only keeps its two factors: `accumulate` adds their product once the norm is known.
    """

    grad_momentum: float | None = None
    keeps_factors = False
    factors: tuple[Tensor, Tensor] | None = None  # [samples, outputs], [samples, inputs]

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

    def gradient_norm(self) -> Tensor:
        """|G^T X| of the factors G and X, by sum(GG^T * XX^T), which has only samples x samples entries.

        Goodfellow, "Efficient per-example gradient computations" (2015), has it for one sample.
        """
        G, X = self._kept_factors()
        return ((G @ G.t()) * (X @ X.t())).sum().clamp_(min=0.0).sqrt()

    def gradient_norm_bound(self) -> float:
        """|G| |X|, which is at least the norm, and takes next to no time."""
        return math.prod(norm.item() for norm in torch._foreach_norm(list(self._kept_factors())))

    def accumulate(self, momentum: Tensor, divisor: Tensor | None) -> None:
        """momentum <- grad_momentum x momentum + gradient / divisor."""
        G, X = self._kept_factors()
        momentum.addmm_((G if divisor is None else G / divisor).t(), X, beta=self.grad_momentum or 0.0)
        self.factors = None

    def _kept_factors(self) -> tuple[Tensor, Tensor]:
        assert self.factors is not None
        return self.factors


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
        if ctx.layer.keeps_factors:
            ctx.layer.factors = gradient, x
        else:
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
        self._clip: float | None = None
        self._momenta = [torch.zeros_like(p.detach()) for p in parameters]
        # Per parameter: the parameter, which has the gradient, its values outside of autograd, its momentum.
        entries = [(p, p.detach(), m) for p, m in zip(parameters, self._momenta, strict=True)]
        layers = {layer.weight: layer for layer in fused}
        self._all_entries, self._all_fused = entries, [(layers[p], w, m) for p, w, m in entries if p in layers]
        self._entries, self._fused = self._all_entries, self._all_fused  # those in use

    @contextmanager
    def reset(self, weight_decay: float, clip: float | None = None, fuses: bool = True) -> Iterator[None]:
        """Start from zero momentum; on exit, leave no gradients behind.

        `clip` is the largest norm of the gradient without weight decay. Fused layers then have no gradients that could
        be changed between backward and step. `fuses` false: they are layers like any other.
        """
        self._weight_decay, self._clip, self._is_first_step = weight_decay, clip, True
        # The momentum of a frozen layer, left over from the previous client, must not move it.
        self._fused = [entry for entry in self._all_fused if fuses and entry[0].weight.requires_grad]
        fused = {layer.weight for layer, _, _ in self._fused}
        self._entries = [entry for entry in self._all_entries if entry[0] not in fused]
        for layer, _, momentum in self._fused:
            layer.grad_momentum, layer.keeps_factors = 0.0, clip is not None
            layer.weight.grad = None if layer.keeps_factors else momentum
        try:
            yield
        finally:
            for layer, _, _ in self._fused:
                layer.weight.grad = layer.grad_momentum = layer.factors = None

    def step(self, lr: float) -> None:
        """Take a step along the gradients, and clear them."""
        entries = [entry for entry in self._entries if entry[0].grad is not None]
        divisor = self._excess([p.grad for p, _, _ in entries if p.grad is not None])
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
            grad_scale=divisor,
        )
        for parameter, _, _ in entries:
            parameter.grad = None
        for layer, weights, momentum in self._fused:
            if layer.keeps_factors:
                layer.accumulate(momentum, divisor)
            if self._weight_decay:
                momentum.add_(weights, alpha=self._weight_decay)
            weights.add_(momentum, alpha=-lr)
            layer.grad_momentum = self._momentum
        self._is_first_step = False

    def _excess(self, gradients: list[Tensor]) -> Tensor | None:
        """How many times the gradient's norm is the largest allowed one, at least 1. None: it is not above it."""
        if self._clip is None:
            return None
        norms = list(torch._foreach_norm(gradients)) if gradients else []
        layers = [layer for layer, _, _ in self._fused]
        if self._momenta[0].device.type == "cpu":  # a GPU would have to wait for the comparison
            bounds = [norm.item() for norm in norms] + [layer.gradient_norm_bound() for layer in layers]
            if math.hypot(*bounds) <= self._clip:
                return None
        norms += [layer.gradient_norm() for layer in layers]
        return ((torch.stack(norms).norm() + TORCHS_EPSILON) / self._clip).clamp_(min=1.0)

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
