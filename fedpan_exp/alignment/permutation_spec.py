"""Which group of neurons every axis of every parameter runs over.

Shuffling, matching and fusing all need one fact: when the neurons of a group are reordered, which tensors move, along
which axis. A network states it once, here. The idea is Git Re-Basin's permutation specification (Ainsworth et al.,
ICLR 2023), extended by blocks (flattened maps) and sections (GroupNorm).
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Axis(NamedTuple):
    group: str
    block: int = 1  # consecutive entries one neuron owns, e.g. H * W after flattening a conv map


class PermutationSpec:
    """Parameter or buffer name -> one Axis per tensor axis; None marks an axis that must not move."""

    def __init__(self) -> None:
        self.axes: dict[str, tuple[Axis | None, ...]] = {}
        self.sizes: dict[str, int] = {}  # neurons in each group
        self.sections: dict[str, int] = {}  # neurons change places only within equal consecutive sections

    def group(self, name: str, size: int) -> str:
        self.sizes[name] = size
        self.sections.setdefault(name, 1)
        return name

    def dense(self, name: str, inputs: str | None, outputs: str | None, block: int = 1) -> None:
        self._weighted(name, outputs, (_axis(inputs, block),))

    def conv(self, name: str, inputs: str | None, outputs: str | None, bias: bool = True) -> None:
        self._weighted(name, outputs, (_axis(inputs), None, None), bias)

    def norm(self, name: str, group: str, layer: nn.Module) -> None:
        """A norm layer belongs to the neurons it normalises; GroupNorm's groups may not mix."""
        for part, tensor in layer.state_dict().items():
            if tensor.dim() == 1:  # weight, bias and running statistics; not BatchNorm's counter
                self.axes[f"{name}.{part}"] = (Axis(group),)
        if isinstance(layer, nn.GroupNorm):
            self.sections[group] = layer.num_groups

    def _weighted(self, name: str, outputs: str | None, rest: tuple[Axis | None, ...], bias: bool = True) -> None:
        self.axes[f"{name}.weight"] = (_axis(outputs), *rest)
        if bias:
            self.axes[f"{name}.bias"] = (_axis(outputs),)


def permute(
    state: Mapping[str, Tensor], spec: PermutationSpec, permutations: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Reorder neurons: new neuron j of a group is old neuron orders[group][j]."""
    moved = dict(state)
    for name in state:
        for dim, axis in enumerate(spec.axes.get(name, ())):
            if axis and axis.group in permutations:
                permutation = permutations[axis.group].to(moved[name].device)
                entries = torch.arange(axis.block, device=permutation.device)
                moved[name] = moved[name].index_select(dim, (permutation[:, None] * axis.block + entries).flatten())
    return moved


def owned(tensor: Tensor, dim: int, neurons: int) -> Tensor:
    """[neurons, entries]: what each neuron owns of a tensor whose axis `dim` runs over them."""
    return tensor.movedim(dim, 0).reshape(neurons, -1)


def _axis(group: str | None, block: int = 1) -> Axis | None:
    return None if group is None else Axis(group, block)
