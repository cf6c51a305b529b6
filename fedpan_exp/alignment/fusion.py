"""Fusing two networks: interpolation, once the neurons of one are brought to the places of the other.

After model fusion by optimal transport (Singh & Jaggi, NeurIPS 2020). Between as many neurons on both sides exact
transport is an assignment (matching.py); entropic transport shares each neuron out among several.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from fedpan_exp.alignment.permutation_spec import PermutationSpec, owned

TOLERANCE = 1e-6  # of the sums of rows
STEPS = 1000


def interpolate(a: Mapping[str, Tensor], b: Mapping[str, Tensor], mu: float) -> dict[str, Tensor]:
    """(1 - mu) a + mu b; counters, which are whole numbers, stay a's."""
    return {name: a[name].lerp(b[name], mu) if a[name].is_floating_point() else a[name] for name in a}


def sinkhorn(costs: Tensor, epsilon: float, sections: int = 1) -> Tensor:
    """Entropic transport between equal masses (Cuturi, NeurIPS 2013), in log space: rows and columns sum to 1.

    epsilon is in units of the mean cost; the smaller, the nearer to an assignment.
    """
    costs = costs.double()
    section = torch.arange(len(costs), device=costs.device) * sections // len(costs)
    costs = costs.masked_fill(section[:, None] != section, torch.inf)
    mean = costs[costs.isfinite()].mean().clamp_min(torch.finfo(costs.dtype).tiny)
    plan = -costs / (epsilon * mean)
    for _ in range(STEPS):
        plan = plan - plan.logsumexp(1, keepdim=True)
        plan = plan - plan.logsumexp(0, keepdim=True)
        if (plan.logsumexp(1).exp() - 1).abs().max() < TOLERANCE:
            break
    return plan.exp()


def transport(state: Mapping[str, Tensor], spec: PermutationSpec, plans: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`permute` with soft orders: new neuron j of a group is the sum of the old ones by row j of plans[group]."""
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
    """[neurons, entries]: all that each neuron of a group owns."""
    parts = []
    for name, axes in spec.axes.items():
        for dim, axis in enumerate(axes):
            if axis and axis.group == group:
                parts.append(owned(state[name], dim, spec.sizes[group]))
    return torch.cat(parts, 1)
