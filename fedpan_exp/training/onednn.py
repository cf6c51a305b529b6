"""Wide linear layers on the CPU, multiplied by oneDNN; `training.fast=false` does without.

MKL, torch's default for matrix products, uses AVX2 on AMD processors that have AVX-512. With oneDNN, which convolutions
use anyway, a step of a network with 3 million weights takes half the time, and its evaluation a third. Both round
differently.
"""

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

SMALLEST_LAYER = 2**16  # weights; for fewer, autograd through Python costs more than the products gain


def use_onednn(net: nn.Module) -> "list[OneDNNLinear]":
    """Let the wide linear layers of a network on the CPU use it, where it is faster; return these layers."""
    if not onednn_is_faster():
        return []
    wide = [m for m in net.modules() if type(m) is nn.Linear and m.weight.numel() >= SMALLEST_LAYER]
    for layer in wide:
        layer.__class__ = OneDNNLinear
    return cast("list[OneDNNLinear]", wide)


@cache
def onednn_is_faster() -> bool:
    """Whether MKL leaves AVX-512 unused. A property of the machine, not a measurement: the bits depend on it."""
    has_both = torch.backends.mkl.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    cpuinfo = Path("/proc/cpuinfo")
    is_amd = cpuinfo.exists() and "AuthenticAMD" in cpuinfo.read_text()
    return has_both and is_amd and torch.backends.cpu.get_cpu_capability() == "AVX512"


class Factors(NamedTuple):
    """Of a gradient, at this address in memory: outer^T inner."""

    address: int
    outer: Tensor
    inner: Tensor


class OneDNNLinear(nn.Linear):
    """Multiplies with oneDNN; sequences and other precisions, which a plugin's network may have, are left to torch."""

    _factors: Factors | None = None  # of what backward gave the weights

    def forward(self, x: Tensor) -> Tensor:
        self._factors = None
        if x.dim() != 2 or x.dtype != torch.float32:
            return F.linear(x, self.weight, self.bias)
        if torch.is_grad_enabled():
            return OneDNNProduct.apply(x, self.weight, self.bias, self)
        return _product(x, self.weight, self.bias)

    def weight_gradient(self, outer: Tensor, inner: Tensor) -> Tensor:
        gradient = _product(outer.t(), inner.t())
        self._factors = Factors(gradient.data_ptr(), outer, inner.detach())
        return gradient

    def gradient_factors(self) -> Factors | None:
        """None if the weights' gradient is not this product alone, or was changed since."""
        gradient, factors = self.weight.grad, self._factors
        if gradient is None or factors is None or gradient.data_ptr() != factors.address or gradient._version > 0:
            return None
        return factors


class OneDNNProduct(torch.autograd.Function):
    """x W^T + b"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, layer: OneDNNLinear) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.layer = layer
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        return (
            _product(gradient, weight.t()) if needs_x else None,
            ctx.layer.weight_gradient(gradient, x) if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
            None,
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Like F.linear, in oneDNN."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def joint_bound(gradients: Sequence[Tensor], layers: Sequence[OneDNNLinear]) -> float:
    """What the joint norm of gradients is at most; infinity if none of the layers knows a bound.

    Cauchy and Schwarz: |a^T b| <= |a| |b|. The factors are a tenth of the gradient, which need not be read again.
    """
    known = {factors.address: factors for layer in layers if (factors := layer.gradient_factors())}
    if not known:
        return math.inf
    rest = [gradient for gradient in gradients if gradient.data_ptr() not in known]
    norms = [norm.item() for norm in torch._foreach_norm(rest)] if rest else []
    bounds = [factors.outer.norm().item() * factors.inner.norm().item() for factors in known.values()]
    return math.hypot(*norms, *bounds)
