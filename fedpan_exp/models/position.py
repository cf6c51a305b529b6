"""Position-aware neurons: a fixed value of the neuron's position joins its pre-activation."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedpan_exp.checks import require, require_choice

NEGLIGIBLE = 1e-9  # a sine below this is a rounding error of sin(pi n)


@dataclass
class Pan:
    """How neurons know their position: e_j = A sin(2 pi T j / J), added (PAN+) or 1 + e_j multiplied (PAN∘)."""

    mode: str = "off"
    A: float = 0.0  # amplitude
    T: float = 1.0  # period: waves over the width of a layer
    placement: str = "paper"  # all hidden layers, or where the released code has them

    def __post_init__(self) -> None:
        require_choice("pan.mode", self.mode, ("off", "add", "mul"))
        require(math.isfinite(self.A) and self.A >= 0, "pan.A", "at least 0", self.A)
        require(math.isfinite(self.T) and self.T >= 0, "pan.T", "at least 0", self.T)
        require_choice("pan.placement", self.placement, ("paper", "authors"))
        require(self.mode != "off" or self.A == 0, "pan.A", "0 with pan=off (or choose pan=add, pan=mul)", self.A)

    @property
    def is_off(self) -> bool:
        return self.mode == "off" or self.A == 0 or self.T == 0

    def encoding(self, layer: str, neurons: int) -> "PositionEncoding":
        return PositionEncoding(layer, neurons, self.mode, self.A, self.T)


class PositionEncoding(nn.Module):
    """Adds or multiplies the encoding to every neuron (channel) of a layer.

    It belongs to the position, not to the neuron: neither trained, nor uploaded, nor averaged, nor moved when neurons
    are permuted. So it lives outside the state dict. A neutral encoding is left out of the computation, which makes
    `A=0` the plain network bit for bit.
    """

    values: Tensor

    def __init__(self, layer: str, neurons: int, mode: str, A: float, T: float):
        super().__init__()
        self.layer, self.neurons, self.mode, self.T = layer, neurons, mode, T
        turns = T * torch.arange(neurons, dtype=torch.float64) / neurons
        sine = torch.sin(2 * math.pi * (turns % 1))
        wave = A * torch.where(sine.abs() < NEGLIGIBLE, 0.0, sine)
        self.neutral = mode == "off" or not bool(wave.any())
        self.removed_by_norm = False  # set by a network that puts BatchNorm behind it
        values = wave if mode == "add" else 1 + wave
        self.register_buffer("values", values.float(), persistent=False)

    def forward(self, h: Tensor) -> Tensor:
        if self.neutral:
            return h
        e = self.values if h.dim() == 2 else self.values.view(-1, 1, 1)  # a value a neuron or a channel
        return h + e if self.mode == "add" else h * e

    def extra_repr(self) -> str:
        return f"{self.neurons}, {'neutral' if self.neutral else self.mode}"


def encodings(net: nn.Module) -> list[PositionEncoding]:
    return [module for module in net.modules() if isinstance(module, PositionEncoding)]


def silent_layers(net: nn.Module) -> dict[str, list[str]]:
    """Reason -> the layers whose encoding has no effect for it."""
    silent: dict[str, list[str]] = {}
    for encoding in encodings(net):
        if encoding.neutral:
            reason = f"T={encoding.T:g} makes every sine 0 at width {encoding.neurons}"
        elif encoding.removed_by_norm:
            reason = "the BatchNorm behind it takes it out again"
        else:
            continue
        silent.setdefault(reason, []).append(encoding.layer)
    return silent
