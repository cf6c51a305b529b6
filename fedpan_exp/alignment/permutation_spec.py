"""Permutation specification: which group of neurons each axis of each tensor indexes.

When the neurons of a group are permuted, the spec tells which tensors change, along which axis. Each network builds its
spec once; shuffling, matching and fusing all use it. The idea is from Git Re-Basin (Ainsworth et al., ICLR 2023),
extended by blocks (flattened feature maps) and sections (GroupNorm, layers cut into groups).
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Axis(NamedTuple):
    group: str
    block: int = 1  # consecutive entries per neuron, e.g. H * W after flattening a feature map


class PermutationSpec:
    """Maps the name of a parameter or buffer to one Axis per tensor axis; None marks an axis that is not permuted."""

    def __init__(self) -> None:
        self.axes: dict[str, tuple[Axis | None, ...]] = {}
        self.sizes: dict[str, int] = {}  # neurons per group
        self.spare: dict[str, int] = {}  # of these, the last ones, whose weights are zero at the start
        self.sections: dict[str, int] = {}  # number of equal consecutive sections, within which neurons may be permuted

    def group(self, name: str, size: int, sections: int = 1, spare: int = 0) -> str:
        self.sizes[name], self.spare[name] = size, spare
        self._divide(name, sections)
        return name

    def dense(self, name: str, inputs: str | None, outputs: str | None, block: int = 1) -> None:
        self._weighted(name, outputs, (_axis(inputs, block),))

    def conv(self, name: str, inputs: str | None, outputs: str | None, bias: bool = True) -> None:
        self._weighted(name, outputs, (_axis(inputs), None, None), bias)

    def norm(self, name: str, group: str, layer: nn.Module) -> None:
        """Add a norm layer, whose channels are permuted with `group`; GroupNorm's groups become its sections."""
        for part, tensor in layer.state_dict().items():
            if tensor.dim() == 1:  # weight, bias and running statistics, but not BatchNorm's batch counter
                self.axes[f"{name}.{part}"] = (Axis(group),)
        if isinstance(layer, nn.GroupNorm):
            self._divide(group, layer.num_groups)

    def _divide(self, group: str, sections: int) -> None:
        """Keep neurons within these sections, in addition to the present ones."""
        self.sections[group] = math.lcm(self.sections.get(group, 1), sections)

    def _weighted(self, name: str, outputs: str | None, rest: tuple[Axis | None, ...], bias: bool = True) -> None:
        self.axes[f"{name}.weight"] = (_axis(outputs), *rest)
        if bias:
            self.axes[f"{name}.bias"] = (_axis(outputs),)


def permute(
    state: Mapping[str, Tensor], spec: PermutationSpec, permutations: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Permute neurons: new neuron j of a group is old neuron permutations[group][j]."""
    moved = dict(state)
    for name in state:
        for dim, axis in enumerate(spec.axes.get(name, ())):
            if axis and axis.group in permutations:
                perm = permutations[axis.group].to(moved[name].device)
                offsets = torch.arange(axis.block, device=perm.device)
                moved[name] = moved[name].index_select(dim, (perm[:, None] * axis.block + offsets).flatten())
    return moved


def rows_per_neuron(tensor: Tensor, dim: int, neurons: int) -> Tensor:
    """Reshape a tensor whose axis `dim` indexes neurons to [neurons, entries]."""
    return tensor.movedim(dim, 0).reshape(neurons, -1)


def _axis(group: str | None, block: int = 1) -> Axis | None:
    return None if group is None else Axis(group, block)
