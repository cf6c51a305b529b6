"""Position-aware neurons: a fixed value of the neuron's position joins its pre-activation."""

import math
from dataclasses import dataclass

from torch import Tensor, nn

from fedpan_exp.models.encodings import ENCODINGS
from fedpan_exp.system.errors import require, require_choice


@dataclass
class Pan:
    """How neurons know their position: e_j = A sin(2 pi T j / J), added (PAN+) or 1 + e_j multiplied (PAN∘)."""

    mode: str = "off"
    A: float = 0.0  # amplitude
    T: float = 1.0  # period: waves over the width of a layer
    encoding: str = "sine"  # the paper's; others in its place
    placement: str = "paper"  # all hidden layers, or where the released code has them
    per_client: str = "shared"  # encodings: the same for all clients, each its own, or partly
    own_share: float = 0.5  # of the positions, where partly

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
        made = PositionEncoding(layer, neurons, self.mode, self.A, self.T, self.encoding, norm)
        made.own = {"shared": 0.0, "own": 1.0, "partial": self.own_share}[self.per_client]
        return made


class PositionEncoding(nn.Module):
    """Adds or multiplies the encoding to every neuron (channel) of a layer.

    It belongs to the position, not to the neuron: neither trained, nor uploaded, nor averaged, nor moved when neurons
    are permuted. So it lives outside the state dict. A neutral encoding is left out of the computation, which makes
    `A=0` the plain network bit for bit.
    """

    values: Tensor
    own: float = 0.0  # the share of its values that a client has in an order of its own

    def __init__(
        self, layer: str, neurons: int, mode: str, A: float, T: float, encoding: str = "sine", norm: str = "none"
    ):
        super().__init__()
        self.layer, self.neurons, self.mode, self.T = layer, neurons, mode, T
        self.norm = norm  # and on which side of it: none, after bn, before gn8
        wave = A * ENCODINGS[encoding](neurons, T)
        self.neutral = mode == "off" or not bool(wave.any())
        self.shared = _sharing(wave)  # how many neurons have each of its values
        values = wave if mode == "add" else 1 + wave
        self.register_buffer("values", values.float(), persistent=False)

    @property
    def removed_by_norm(self) -> bool:
        return self.norm == "before bn"

    def forward(self, h: Tensor) -> Tensor:
        if self.neutral:
            return h
        e = self.values if h.dim() == 2 else self.values.view(-1, 1, 1)  # a value a neuron or a channel
        return h + e if self.mode == "add" else h * e

    def extra_repr(self) -> str:
        return f"{self.neurons}, {'neutral' if self.neutral else self.mode}"


def encodings(net: nn.Module) -> list[PositionEncoding]:
    return [module for module in net.modules() if isinstance(module, PositionEncoding)]


def inactive_layers(net: nn.Module) -> dict[str, list[str]]:
    """Reason -> the layers whose encoding has no effect for it."""
    silent: dict[str, list[str]] = {}
    for encoding in encodings(net):
        if encoding.neutral:
            reason = f"T={encoding.T:g} makes every sine 0 at width {encoding.neurons}"
        elif len(encoding.shared) == 1:
            reason = f"all neurons have the same value at width {encoding.neurons}"
        elif encoding.removed_by_norm:
            reason = "the BatchNorm behind it takes it out again"
        else:
            continue
        silent.setdefault(reason, []).append(encoding.layer)
    return silent


def _sharing(wave: Tensor) -> list[int]:
    """Sines that are equal on paper differ by a rounding error."""
    size = wave.abs().max().clamp(min=1e-300)
    return (wave / size).round(decimals=9).unique(return_counts=True)[1].tolist()
