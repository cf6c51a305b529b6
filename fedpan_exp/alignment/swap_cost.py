"""Swap cost: what two neurons need to take each other's part, relative to their squared norms.

Where a trained weight or bias can make up for the position, it is the change of the squared norm (Bürgin et al., ICML
2026), which weight decay sees and plain SGD does not. Where something is fixed, it is the squared error that remains.
"""

import torch
from torch import Tensor

FREE = ("off", "bias_init", "rates")  # plain neurons: any two may be swapped


def swap_costs(mode: str, weights: Tensor, bias: Tensor, values: Tensor, fixed: Tensor | None = None) -> Tensor | None:
    """The costs of all pairs of neurons, [pairs]; None where no weights can take another neuron's part.

    `weights` [neurons, entries] and `bias` [neurons] are those that the network stores, `values` its encoding: e, or
    1 + e for mode=mul. `fixed` masks the weights that are not trained.
    """
    weights, bias, values = weights.double(), bias.double(), values.double()
    squares = weights.square().sum(1) + bias.square()
    if mode in FREE:
        costs = torch.zeros(len(bias), len(bias), dtype=torch.float64)
    elif mode == "add":
        shifted = bias + values
        squares = weights.square().sum(1) + shifted.square()
        costs = 2 * _differences(shifted) * _differences(values)
    elif mode == "mul":
        squares = squares * values.square()
        costs = -_differences(squares) * _differences(values.square().reciprocal())
    elif mode == "frozen_bias":
        costs = 2 * _differences(values).square()
    elif mode == "w_asym" and fixed is not None:
        mask = fixed.double()  # of each neuron: where its own weights are fixed, the other one's differ
        own = mask * weights
        errors = (own * weights).sum(1, keepdim=True) + mask @ weights.square().t() - 2 * own @ weights.t()
        costs = errors + errors.t()
    else:
        return None
    pairs = torch.triu_indices(len(bias), len(bias), offset=1)
    sums = squares[:, None] + squares
    return (costs / sums.clamp_min(torch.finfo(torch.float64).tiny))[pairs[0], pairs[1]]


def _differences(values: Tensor) -> Tensor:
    """[n, n]: values[i] - values[j]."""
    return values[:, None] - values
