"""Fuse two networks: align the neurons of one with the other, then interpolate the weights.

Follows model fusion by optimal transport (Singh & Jaggi, NeurIPS 2020). With equal numbers of neurons, exact transport
is an assignment (matching.py); entropic transport, for which POT is needed, distributes each neuron over several.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedpan_exp.alignment.permutation_spec import PermutationSpec, rows_per_neuron

TOLERANCE = 1e-9  # on the sums of rows and columns, whose masses add up to 1
STEPS = 1000


def interpolate(a: Mapping[str, Tensor], b: Mapping[str, Tensor], mu: float) -> dict[str, Tensor]:
    """(1 - mu) a + mu b; integer tensors, which are counters, are taken from a."""
    return {name: a[name].lerp(b[name], mu) if a[name].is_floating_point() else a[name] for name in a}


def average(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of networks; integer tensors, which are counters, are taken from the first."""
    first = states[0]
    stacks = {name: torch.stack([state[name] for state in states]) for name in first}
    return {name: stacks[name].mean(0) if first[name].is_floating_point() else first[name] for name in first}


def sinkhorn(costs: Tensor, epsilon: float, sections: int = 1) -> Tensor:
    """Entropic transport plan between equal masses (Cuturi, NeurIPS 2013), per section: rows and columns sum to 1.

    `epsilon` is in units of the mean cost; the smaller it is, the closer the plan is to an assignment.
    """
    import ot  # an extra, and its import takes seconds

    section = torch.arange(len(costs), device=costs.device) * sections // len(costs)
    blocks = [costs.double()[section == i][:, section == i] for i in range(sections)]
    mean = torch.cat([block.flatten() for block in blocks]).mean().clamp_min(torch.finfo(torch.double).tiny)
    options = {"method": "sinkhorn_log", "numItermax": STEPS, "stopThr": TOLERANCE, "warn": False}
    return torch.block_diag(*(len(block) * ot.sinkhorn([], [], block / mean, epsilon, **options) for block in blocks))


def transport(state: Mapping[str, Tensor], spec: PermutationSpec, plans: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Soft `permute`: new neuron j of a group is the sum of the old ones, weighted by row j of plans[group]."""
    moved = dict(state)
    for name, axes in spec.axes.items():
        for dim, axis in enumerate(axes):
            if axis and axis.group in plans:
                plan = plans[axis.group].to(moved[name].device)
                front = moved[name].movedim(dim, 0)
                mixed = plan @ front.reshape(len(plan), -1).to(plan.dtype)
                moved[name] = mixed.reshape(front.shape).movedim(0, dim).to(state[name].dtype)
    return moved


def neuron_weights(state: Mapping[str, Tensor], spec: PermutationSpec, group: str) -> Tensor:
    """[neurons, entries]: all weights of each neuron of a group, incoming and outgoing."""
    parts = []
    for name, axes in spec.axes.items():
        for dim, axis in enumerate(axes):
            if axis and axis.group == group:
                parts.append(rows_per_neuron(state[name], dim, spec.sizes[group]))
    return torch.cat(parts, 1)
