"""Position-aware neurons (PANs): a fixed value per position is added to or multiplied with the pre-activation."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedpan_exp.models.encodings import ENCODINGS
from fedpan_exp.system.errors import require, require_choice


@dataclass
class Pan:
    """Settings of PANs: add e_j = A sin(2 pi T j / J) (PAN+), or multiply by 1 + e_j (PAN∘)."""

    mode: str = "off"
    A: float = 0.0  # amplitude
    T: float = 1.0  # number of periods over the width of a layer
    encoding: str = "sine"  # the paper's, or an alternative
    placement: str = "paper"  # in all hidden layers, or only where the released code has them
    per_client: str = "shared"  # the same values at all clients, own values per client, or partly own values
    own_share: float = 0.5  # with per_client=partial: fraction of positions with own values

    def __post_init__(self) -> None:
        require_choice("pan.mode", self.mode, ("off", "add", "mul"))
        require(math.isfinite(self.A) and self.A >= 0, "pan.A", "at least 0", self.A)
        require(math.isfinite(self.T) and self.T >= 0, "pan.T", "at least 0", self.T)
        require_choice("pan.encoding", self.encoding, ENCODINGS)
        require_choice("pan.placement", self.placement, ("paper", "authors"))
        require_choice("pan.per_client", self.per_client, ("shared", "own", "partial"))
        require(0 < self.own_share < 1, "pan.own_share", "in (0, 1)", self.own_share)
        require(self.mode != "off" or self.A == 0, "pan.A", "0 with pan=off (or choose pan=add, pan=mul)", self.A)

    @property
    def is_off(self) -> bool:
        return self.mode == "off" or self.A == 0

    def encode(self, layer: str, neurons: int, norm: str = "none") -> "PositionEncoding":
        module = PositionEncoding(layer, neurons, self.mode, self.A, self.T, self.encoding, norm)
        module.client_fraction = {"shared": 0.0, "own": 1.0, "partial": self.own_share}[self.per_client]
        return module


class PositionEncoding(nn.Module):
    """Adds the encoding to, or multiplies it with, every neuron (channel) of a layer.

    The encoding belongs to the position, not to the neuron: it is not trained, uploaded, averaged or permuted. It is
    therefore not in the state dict. A neutral encoding is skipped, so that `A=0` is bit for bit the plain network.
    """

    values: Tensor
    client_fraction: float = 0.0  # fraction of the values that each client permutes

    def __init__(
        self, layer: str, neurons: int, mode: str, A: float, T: float, encoding: str = "sine", norm: str = "none"
    ):
        super().__init__()
        self.layer, self.neurons, self.mode, self.T = layer, neurons, mode, T
        self.norm = norm  # the adjacent norm layer: none, after bn, before gn8
        with torch.device("cpu"):  # on the meta device, values could not be inspected for being neutral
            wave = A * ENCODINGS[encoding](neurons, T)
        self.neutral = mode == "off" or not bool(wave.any())
        self.value_counts = _value_counts(wave)  # number of neurons per distinct value
        values = wave if mode == "add" else 1 + wave
        self.register_buffer("values", values.float(), persistent=False)

    @property
    def removed_by_norm(self) -> bool:
        return self.norm == "before bn"

    def forward(self, h: Tensor) -> Tensor:
        if self.neutral:
            return h
        e = self.values if h.dim() == 2 else self.values.view(-1, 1, 1)  # one value per neuron or channel
        return h + e if self.mode == "add" else h * e

    def extra_repr(self) -> str:
        return f"{self.neurons}, {'neutral' if self.neutral else self.mode}"


def encodings(net: nn.Module) -> list[PositionEncoding]:
    return [module for module in net.modules() if isinstance(module, PositionEncoding)]


def inactive_layers(net: nn.Module) -> dict[str, list[str]]:
    """Reason -> layers whose encoding has no effect for this reason."""
    inactive: dict[str, list[str]] = {}
    for encoding in encodings(net):
        if encoding.neutral:
            reason = f"T={encoding.T:g} makes every sine 0 at width {encoding.neurons}"
        elif len(encoding.value_counts) == 1:
            reason = f"all neurons have the same value at width {encoding.neurons}"
        elif encoding.removed_by_norm:
            reason = "the BatchNorm after it cancels it"
        else:
            continue
        inactive.setdefault(reason, []).append(encoding.layer)
    return inactive


def _value_counts(wave: Tensor) -> list[int]:
    """Rounds first: sines that are mathematically equal differ by rounding errors."""
    scale = wave.abs().max().clamp(min=1e-300)
    return (wave / scale).round(decimals=9).unique(return_counts=True)[1].tolist()
