"""Which class a neuron works for (preference vectors, after Fed²: Yu et al., KDD 2021)."""

import torch
from torch import Tensor


def contributions(activation: Tensor, gradient: Tensor, labels: Tensor, classes: int) -> Tensor:
    """p_c = sum_b Acti(x_cb) dZ_c/dActi(x_cb) as [neurons, classes]; a channel's positions are summed, too.

    `gradient` is, for each sample, that of the score of its own class; samples of other classes than c do not enter p_c.
    """
    worth = (activation * gradient).flatten(2).sum(2) if activation.dim() > 2 else activation * gradient
    vectors = worth.new_zeros(classes, worth.shape[1])
    return vectors.index_add_(0, labels, worth).T


def share_of_same_class(a: Tensor, b: Tensor) -> float:
    """Of neurons whose preferred class, the argmax of their vectors [neurons, classes], is the same in both."""
    return torch.eq(a.argmax(1), b.argmax(1)).double().mean().item()
