"""Position-aware neurons (PANs): every neuron has something fixed that belongs to its position."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedpan_exp.models.encodings import ENCODINGS, encode_positions
from fedpan_exp.system.errors import ConfigError, require, require_choice
from fedpan_exp.system.rng import rng

MODES = {  # what is done to the pre-activation z_j or the activation of neuron j, with e_j = A sin(2 pi T j / J)
    "off": "nothing",
    "add": "z + e (PAN+)",
    "mul": "(1 + e) z (PAN∘)",
    "bias_init": "nothing; the bias starts at e",
    "rates": "nothing; the neuron learns with (1 + e)^2 times the rate",
    "frozen_bias": "z + e, and its own bias is not trained",
    "after": "relu(z) + e",
    "slope": "z if z > 0 else e z",
    "w_asym": "nothing; n_fix of its incoming weights are fixed at random values (Lim et al., NeurIPS 2024)",
    "sigma_asym": "2 sigmoid(F z) z with a fixed random matrix F (Lim et al., NeurIPS 2024)",
}
ABSORBABLE = ("add", "mul")  # trained weights can take the encoding over: docs/identity.md
PLAIN = ("off", "bias_init", "rates")  # plain neurons: controls for PANs
RANDOM = ("w_asym", "sigma_asym")  # fixed random numbers instead of an encoding
AT_ACTIVATION = ("after", "slope")  # the others come before the activation function
PASSIVE = (*PLAIN, "w_asym")  # compute nothing themselves


@dataclass
class Pan:
    """Settings of PANs: add e_j = A sin(2 pi T j / J) (PAN+), multiply by 1 + e_j (PAN∘), or another of MODES."""

    mode: str = "off"
    A: float = 0.0  # amplitude
    T: float = 1.0  # number of periods over the width of a layer
    encoding: str = "sine"  # the paper's, or an alternative
    placement: str = "paper"  # in all hidden layers, or only where the released code has them
    per_client: str = "shared"  # the same values at all clients, own values per client, or partly own values
    own_share: float = 0.5  # with per_client=partial: fraction of positions with own values
    order: str = "shared"  # of the values over the positions; shuffled: the same values in another order, for all
    n_fix: int = 0  # with mode=w_asym: fixed incoming weights per neuron

    def __post_init__(self) -> None:
        require_choice("pan.mode", self.mode, MODES)
        require(math.isfinite(self.A), "pan.A", "finite", self.A)
        require(self.A >= 0, "pan.A", "at least 0", self.A)
        require(math.isfinite(self.T) and self.T >= 0, "pan.T", "at least 0", self.T)
        require_choice("pan.encoding", self.encoding, ENCODINGS)
        require_choice("pan.placement", self.placement, ("paper", "authors"))
        require_choice("pan.per_client", self.per_client, ("shared", "own", "partial"))
        require(0 < self.own_share < 1, "pan.own_share", "in (0, 1)", self.own_share)
        require(self.mode != "off" or self.A == 0, "pan.A", "0 with pan=off (or choose pan=add, pan=mul)", self.A)
        require_choice("pan.order", self.order, ("shared", "shuffled"))
        self._check_kind()

    def _check_kind(self) -> None:
        """Reject what a kind of PAN cannot have."""
        has_n_fix = self.n_fix >= 1 if self.mode == "w_asym" else self.n_fix == 0
        require(has_n_fix, "pan.n_fix", "at least 1 with pan=w_asym, else 0", self.n_fix)
        if self.fixes_weights:
            require(self.A > 0, "pan.A", f"above 0 with pan={self.mode}", self.A)
        if self.mode in (*PASSIVE, *RANDOM) and self.mode != "off":
            rule = f"shared with pan={self.mode}, whose values are no input of a layer"
            require(self.per_client == "shared", "pan.per_client", rule, self.per_client)
        if self.mode in RANDOM:
            require(self.order == "shared", "pan.order", f"shared with pan={self.mode}, which is random", self.order)
        if self.mode in AT_ACTIVATION:
            rule = f"paper with pan={self.mode}, which the released code does not have"
            require(self.placement == "paper", "pan.placement", rule, self.placement)

    @property
    def is_off(self) -> bool:
        return self.mode == "off" or self.A == 0

    @property
    def is_plain(self) -> bool:
        """Whether the neurons are plain: PANs off, or a control for PANs."""
        return self.mode in PLAIN

    @property
    def is_absorbable(self) -> bool:
        """Whether trained weights can take the encoding over (docs/identity.md)."""
        return self.mode in ABSORBABLE

    @property
    def fixes_weights(self) -> bool:
        """Whether some parameters of the network are not trained."""
        return self.mode in ("frozen_bias", "w_asym")

    def encode(
        self, layer: str, neurons: int, weights: str, norm: str = "none", affine: str | None = None
    ) -> nn.Module:
        """The module before the activation of a layer; see PositionEncoding for `weights` and `affine`."""
        if self.mode in AT_ACTIVATION:
            return nn.Identity()
        kind = FixedGate if self.mode == "sigma_asym" and self.A > 0 else PositionEncoding
        return self._module(kind, layer, neurons, norm, weights, affine or weights)

    def activation(self, layer: str, neurons: int) -> nn.Module:
        """The activation of a layer: ReLU, with the encoding after it or in its slope where that is the PAN's kind."""
        if self.mode not in AT_ACTIVATION or self.A == 0:
            return nn.ReLU()
        encoding = self._module(PositionEncoding, layer, neurons)
        return encoding if self.mode == "slope" else nn.Sequential(nn.ReLU(), encoding)

    def _module(
        self,
        kind: "type[PositionEncoding]",
        layer: str,
        neurons: int,
        norm: str = "none",
        weights: str = "",
        affine: str = "",
    ) -> "PositionEncoding":
        module = kind(layer, neurons, self.mode, self.A, self.T, self.encoding, norm, self.order == "shuffled")
        module.client_fraction = {"shared": 0.0, "own": 1.0, "partial": self.own_share}[self.per_client]
        module.weights, module.affine = weights, affine
        return module


class PositionEncoding(nn.Module):
    """Adds the encoding to, or multiplies it with, every neuron (channel) of a layer, or has another of MODES.

    The encoding belongs to the position, not to the neuron: it is not trained, uploaded, averaged or permuted. It is
    therefore not in the state dict. A neutral encoding is skipped, so that `A=0` is bit for bit the plain network.
    """

    values: Tensor
    client_fraction: float = 0.0  # fraction of the values that each client permutes
    weights: str = ""  # name of the layer with the neurons' incoming weights
    affine: str = ""  # name of the layer whose output is encoded: the same, or the norm layer after it

    def __init__(
        self,
        layer: str,
        neurons: int,
        mode: str,
        A: float,
        T: float,
        encoding: str = "sine",
        norm: str = "none",
        is_shuffled: bool = False,
    ):
        super().__init__()
        self.layer, self.neurons, self.mode, self.T = layer, neurons, mode, T
        self.norm = norm  # the adjacent norm layer: none, after bn, before gn8
        with torch.device("cpu"):  # on the meta device, values could not be inspected for being neutral
            try:
                wave = A * encode_positions(ENCODINGS[encoding], neurons, T)
            except ValueError as error:
                raise ConfigError(f"pan.encoding={encoding} must {error}") from None
        if is_shuffled:
            wave = wave[torch.randperm(neurons, generator=rng(0, "order", layer, neurons), device="cpu")]
        is_random = mode in RANDOM and A > 0
        self.neutral = mode == "off" or not (is_random or bool(wave.any()))
        self.value_counts = [1] * neurons if is_random else _value_counts(wave)  # number of neurons per distinct value
        values = 1 + wave if mode in ("off", "mul", "rates") else wave
        self.register_buffer("values", values.float(), persistent=False)

    @property
    def removed_by_norm(self) -> bool:
        return self.norm == "before bn"

    def forward(self, h: Tensor) -> Tensor:
        if self.neutral or self.mode in PASSIVE:
            return h.relu() if self.mode == "slope" else h
        e = self.values if h.dim() == 2 else self.values.view(-1, 1, 1)  # one value per neuron or channel
        if self.mode == "slope":
            return torch.where(h > 0, h, e * h)
        return h * e if self.mode == "mul" else h + e

    def extra_repr(self) -> str:
        return f"{self.neurons}, {'neutral' if self.neutral else self.mode}"


class FixedGate(PositionEncoding):
    """z -> 2 sigmoid(F z) z, where F is a fixed matrix with entries A N(0, 1) / sqrt(J), part of the architecture.

    In sigma-asymmetric networks (Lim et al., NeurIPS 2024) the gate replaces the activation. Here it comes before the
    ReLU, and A=0 is the plain network. The channels of a feature map are mixed at every pixel.
    """

    matrix: Tensor

    def __init__(self, layer: str, neurons: int, mode: str, A: float, *settings: object):
        super().__init__(layer, neurons, mode, A, *settings)  # type: ignore[arg-type]
        drawn = torch.randn(neurons, neurons, generator=rng(0, "gate", layer, neurons), device="cpu")
        self.register_buffer("matrix", A / math.sqrt(neurons) * drawn, persistent=False)

    def forward(self, h: Tensor) -> Tensor:
        mixed = h @ self.matrix.t() if h.dim() == 2 else torch.einsum("ij,njhw->nihw", self.matrix, h)
        return 2 * torch.sigmoid(mixed) * h


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
