"""Layers cut into groups of neurons that do not see each other: the structure of Fed² (Yu et al., KDD 2021).

From some layer on, each group of neurons computes the logits of its own classes: no weight connects it with another
group, so the gradient of a class reaches no other group. Weights keep their dense shapes, and a fixed mask holds those
between groups at 0. Whatever reads the permutation spec works unchanged: the groups are its sections.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedpan_exp.alignment.permutation_spec import PermutationSpec
from fedpan_exp.system.errors import require


@dataclass(frozen=True)
class Groups:
    """A network's cut into groups, after its first `shared` hidden layers. Layers are counted from 1."""

    number: int = 1
    shared: int = 1

    def check(self, widths: Sequence[int], setting: str) -> None:
        """Check the widths of all hidden layers, which `setting` has."""
        require(self.number >= 1, "model.groups", "at least 1", self.number)
        if self.number > 1:
            require(
                1 <= self.shared <= len(widths),
                "model.shared_layers",
                f"1 to {len(widths)}, the hidden layers",
                self.shared,
            )
        is_divisible = all(width % self.sections(layer) == 0 for layer, width in enumerate(widths, start=1))
        rule = f"divisible by model.groups={self.number} from layer {self.shared} on"
        require(is_divisible, setting, rule, " ".join(map(str, widths)))

    def check_classes(self, classes: int) -> None:
        require(self.number <= classes, "model.groups", f"at most {classes}, the number of classes", self.number)

    def sections(self, layer: int) -> int:
        """The sections of a layer's neurons. The last shared layer has them too: each group sees one of them."""
        return self.number if layer >= self.shared else 1

    def linear(self, layer: int, inputs: int, outputs: int) -> nn.Linear:
        return BlockLinear(inputs, outputs, self.number) if self._cut(layer) else nn.Linear(inputs, outputs)

    def conv(self, layer: int, inputs: int, outputs: int) -> nn.Conv2d:
        """A 3x3 convolution."""
        if self._cut(layer):
            return BlockConv2d(inputs, outputs, self.number)
        return nn.Conv2d(inputs, outputs, 3, padding=1)

    def _cut(self, layer: int) -> bool:
        return self.number > 1 and layer > self.shared


UNCUT = Groups()


class BlockLinear(nn.Linear):
    """A linear layer from each group of inputs to the same group of outputs."""

    mask: Tensor  # 1 or 0 [outputs, inputs]; as floats, because a product with booleans takes three times as long

    def __init__(self, inputs: int, outputs: int, blocks: int):
        super().__init__(inputs, outputs)
        self.blocks = blocks
        self.register_buffer("mask", diagonal_blocks(outputs, inputs, blocks), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * self.mask, self.bias)


class BlockConv2d(nn.Conv2d):
    """A 3x3 convolution from each group of channels to the same group of channels."""

    mask: Tensor  # 1 or 0 [outputs, inputs, 1, 1]

    def __init__(self, inputs: int, outputs: int, blocks: int):
        super().__init__(inputs, outputs, 3, padding=1)
        self.blocks = blocks
        self.register_buffer("mask", diagonal_blocks(outputs, inputs, blocks)[..., None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self._conv_forward(x, self.weight * self.mask, self.bias)


def group_of(entries: int, groups: int) -> Tensor:
    """The group of each entry: consecutive neurons, their flattened feature maps, or classes."""
    return torch.arange(entries) * groups // entries


def diagonal_blocks(rows: int, columns: int, blocks: int) -> Tensor:
    return (group_of(rows, blocks)[:, None] == group_of(columns, blocks)).float()


@torch.no_grad()
def fill_blocks(layer: nn.Module) -> None:
    """Zero the weights between groups; scale the others up, as each neuron has so many fewer inputs and outputs."""
    if isinstance(layer, BlockLinear | BlockConv2d):
        layer.weight.mul_(layer.mask).mul_(math.sqrt(layer.blocks))


def weight_groups(net: nn.Module, spec: PermutationSpec, groups: int) -> list[Tensor]:
    """The group of each weight: one tensor per parameter, broadcastable to its shape.

    `groups` stands for a weight that all groups share, `groups` + 1 for one that is held at 0.
    """
    blocks = {name: layer for name, layer in net.named_modules() if isinstance(layer, BlockLinear | BlockConv2d)}
    divided = {spec.axes[f"{name}.weight"][0] for name in blocks} - {None}  # also the axes of norm layers after them
    found = []
    for name, parameter in net.named_parameters():
        layer, _, part = name.rpartition(".")
        is_divided = layer in blocks or spec.axes[name][0] in divided
        rows = group_of(len(parameter), groups) if is_divided else torch.full((len(parameter),), groups)
        if layer in blocks and part == "weight":
            outputs, inputs = parameter.shape[:2]
            inside = diagonal_blocks(outputs, inputs, blocks[layer].blocks) > 0
            rows = torch.where(inside, rows[:, None], groups + 1)
        found.append(rows.view(*rows.shape, *[1] * (parameter.dim() - rows.dim())))
    return found


def count_weights(net: nn.Module) -> int:
    """The number of weights, without those that a mask holds at 0."""
    masked = (m for m in net.modules() if isinstance(m, BlockLinear | BlockConv2d))
    zeros = sum(int((layer.mask == 0).sum()) * layer.weight[0, 0].numel() for layer in masked)
    return sum(parameter.numel() for parameter in net.parameters()) - zeros
