"""Which class a neuron works for (preference vectors, after Fed²: Yu et al., KDD 2021)."""

import torch
from torch import Tensor


def contributions(activation: Tensor, gradient: Tensor, labels: Tensor, classes: int) -> Tensor:
    """p_c = sum_b Acti(x_cb) dZ_c/dActi(x_cb) as [neurons, classes]; a channel's positions are summed, too.

    `gradient` is, for each sample, that of the score of its own class; others do not enter p_c.
    """
    worth = (activation * gradient).flatten(2).sum(2) if activation.dim() > 2 else activation * gradient
    vectors = worth.new_zeros(classes, worth.shape[1])
    return vectors.index_add_(0, labels, worth).T


def preferred_class(vectors: Tensor) -> Tensor:
    """The argmax of each neuron's vector; -1 for one that is silent on all samples and works for none."""
    return torch.where((vectors != 0).any(1), vectors.argmax(1), -1)


def same_class_ratio(a: Tensor, b: Tensor) -> float:
    """Of the neurons; one that is silent in both networks has not changed either."""
    return torch.eq(preferred_class(a), preferred_class(b)).double().mean().item()
