"""The interface of all networks, initialisation and norm layers."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedpan_exp.alignment.permutation_spec import PermutationSpec
from fedpan_exp.models.block_layers import Groups, fill_blocks
from fedpan_exp.models.position import Pan
from fedpan_exp.system.errors import ConfigError, require, require_choice

HEADS = ("trained", "frozen", "etf")

Shape = tuple[int, int, int]  # channels, height, width


class Network(nn.Module):
    """A body that computes features and a linear head that classifies them."""

    body: nn.Sequential
    head: nn.Linear
    permutation_spec: PermutationSpec  # which neurons each tensor axis indexes
    activation_modules: dict[str, str]  # group of neurons -> name of the module that outputs their activations
    is_sequential: bool = True  # whether each hidden layer is the input of the next one alone
    class_groups: int = 1  # groups of classes with neurons of their own (block_layers.py)
    init: str = "authors"  # how initial weights are drawn

    def __init__(self) -> None:
        super().__init__()
        # How single entries train, by name of their parameter; what is not named trains as usual.
        self.fixed: dict[str, Tensor] = {}  # masks of the parameter's shape: the entries that never change
        self.rates: dict[str, Tensor] = {}  # factors of the learning rate, one per neuron
        self.decay_point: dict[str, Tensor] = {}  # where weight decay pulls to; empty: to 0

    @property
    def has_batch_norm(self) -> bool:
        return any(isinstance(module, nn.BatchNorm2d) for module in self.modules())

    def features(self, x: Tensor) -> Tensor:
        return self.body(x)

    def forward(self, x: Tensor, with_features: bool = False) -> Any:
        """Logits, or (features, logits)."""
        features = self.features(x)
        logits = self.head(features)
        return (features, logits) if with_features else logits


def check_network(net: Any, model: str) -> None:
    """Check what a model has built, in particular one of a plugin."""
    if not isinstance(net, Network):
        raise ConfigError(f"model={model} must build a Network, got {type(net).__name__}")
    for name in ("head", "permutation_spec", "activation_modules"):
        if not hasattr(net, name):
            raise ConfigError(f"model={model} must build a network that has {name}")


@dataclass
class ModelSettings:
    """Settings of every model: its name and default learning rates."""

    name: str = ""  # the chosen option
    lr: float = 0.05  # the paper's
    authors_lr: float = 0.05  # the released code's, used with fidelity=authors
    init: str = "authors"  # initial weights
    head: str = "trained"  # or not: see heads.py

    def __post_init__(self) -> None:
        require_choice("model.init", self.init, INITIALISATIONS)
        require_choice("model.head", self.head, HEADS)

    def build(self, shape: Shape, classes: int, pan: Pan) -> Network:
        raise ConfigError(f"model must be one of the options of the group model, got {self.name or 'none'}")


@dataclass
class GroupedSettings(ModelSettings):
    """Settings of models whose neurons can be divided over groups of classes."""

    groups: int = 1
    shared_layers: int = 1  # hidden layers before the groups

    @property
    def cut(self) -> Groups:
        return Groups(self.groups, self.shared_layers)


def authors_init(net: nn.Module, generator: torch.Generator) -> None:
    """The released code's initialisation, drawn layer by layer, so that it does not depend on the encodings."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01, generator=generator)
        if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        fill_blocks(module)


def he_init(net: nn.Module, generator: torch.Generator) -> None:
    """He et al. (ICCV 2015): the scale of activations is preserved from layer to layer, as in a trained network."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu", generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
            fill_blocks(module)


def torch_init(net: nn.Module, generator: torch.Generator) -> None:
    """torch's default: weights and biases uniform within 1 / sqrt(fan-in)."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            bound = 1 / math.sqrt(module.weight[0].numel())
            for tensor in (module.weight, module.bias):
                if tensor is not None:
                    nn.init.uniform_(tensor, -bound, bound, generator=generator)
            fill_blocks(module)


INITIALISATIONS: dict[str, Callable[[nn.Module, torch.Generator], None]] = {
    "authors": authors_init,
    "he": he_init,
    "torch": torch_init,
}


def norm_layer(kind: str, channels: int) -> nn.Module:
    """`kind` is none, bn or gn<groups>."""
    if kind == "none":
        return nn.Identity()
    if kind == "bn":
        return nn.BatchNorm2d(channels)
    groups = norm_groups(kind)
    require(channels % groups == 0, "model.norm", f"gn<groups> with groups dividing the width {channels}", kind)
    return nn.GroupNorm(groups, channels)


def norm_position(kind: str, side: str = "after") -> str:
    """Position of an encoding relative to the norm layer: none, after bn, before gn8."""
    return kind if kind == "none" else f"{side} {kind}"


def norm_groups(kind: str) -> int:
    """The number of groups that GroupNorm needs a width to be divisible by; 1 for other kinds."""
    return int(kind.removeprefix("gn")) if kind.startswith("gn") else 1


def scaled_width(width: int, factor: float, groups: int) -> int:
    """`factor` times the width, rounded to a positive multiple of `groups`; a factor of 1 changes nothing."""
    return width if factor == 1 else max(1, round(width * factor / groups)) * groups


def check_width_factor(factor: float) -> None:
    require(0 < factor < math.inf, "model.width_factor", "above 0", factor)


def check_norm(kind: str) -> None:
    is_valid = re.fullmatch(r"none|bn|gn[1-9]\d*", kind) is not None
    require(is_valid, "model.norm", "none, bn or gn<groups> (gn1, gn8, ...)", kind)
