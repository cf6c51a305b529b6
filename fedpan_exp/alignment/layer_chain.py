"""Networks that are a chain of layers: the neurons of each layer feed the next one and nothing else."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from fedpan_exp.alignment.permutation_spec import PermutationSpec, permute, rows_per_neuron


class Layer(NamedTuple):
    tensors: tuple[str, ...]  # weight and bias
    inputs: str | None  # group of neurons; None: the input of the network
    outputs: str | None  # None: the logits


def layer_chain(spec: PermutationSpec) -> list[Layer]:
    """The layers from input to head; empty if they are no chain, or not all neurons of one are alike."""
    if any(sections > 1 for sections in spec.sections.values()):
        return []
    tensors: dict[str, list[str]] = {}
    for name in spec.axes:
        tensors.setdefault(name.rpartition(".")[0], []).append(name)
    layers, inputs = [], None
    for module, names in tensors.items():
        axes = spec.axes[f"{module}.weight"]
        groups = [axis.group if axis else None for axis in axes[:2]]
        if len(axes) == 1 or groups[1] != inputs:
            return []
        layers.append(Layer(tuple(names), inputs, groups[0]))
        inputs = groups[0]
    outputs = [layer.outputs for layer in layers]
    is_chain = len(set(outputs)) == len(outputs) and outputs[-1:] == [None]
    return layers if is_chain else []


def incoming_weights(state: Mapping[str, Tensor], layer: Layer) -> Tensor:
    """[neurons, entries]: the incoming weights and the bias of each neuron of a layer."""
    return torch.cat([rows_per_neuron(state[name], 0, len(state[name])) for name in layer.tensors], 1)


def set_incoming_weights(state: Mapping[str, Tensor], layer: Layer, rows: Tensor) -> None:
    """Write what `incoming_weights` reads, in place."""
    widths = [state[name][0].numel() for name in layer.tensors]
    for name, part in zip(layer.tensors, rows.split(widths, 1), strict=True):
        state[name].copy_(part.reshape(state[name].shape))


def rearrange(state: Mapping[str, Tensor], spec: PermutationSpec, orders: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`permute` with gaps: where an order is -1, the new neuron has zero weights."""
    moved = permute(state, spec, {group: order.clamp_min(0) for group, order in orders.items()})
    for name, tensor in moved.items():
        for dim, axis in enumerate(spec.axes.get(name, ())):
            if axis and axis.group in orders:
                gaps = (orders[axis.group] < 0).repeat_interleave(axis.block).nonzero().flatten()
                moved[name] = moved[name].index_fill(dim, gaps.to(tensor.device), 0)
    return moved


def count_entries(layer: Layer, state: Mapping[str, Tensor], spec: PermutationSpec, neurons: Mapping[str, int]) -> int:
    """Weights of a layer if its groups have `neurons` neurons; the others of each group are gaps."""
    total = 0
    for name in layer.tensors:
        entries = state[name].numel()
        for axis in spec.axes[name]:
            if axis:
                entries = entries // spec.sizes[axis.group] * neurons[axis.group]
        total += entries
    return total
