"""Class preference of neurons: the preference vectors of Fed² (Yu et al., KDD 2021)."""

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor


def contributions(activation: Tensor, gradient: Tensor, labels: Tensor, classes: int) -> Tensor:
    """p_c = sum_b Acti(x_cb) dZ_c/dActi(x_cb) as [neurons, classes], also summed over the positions of a channel.

    `gradient` is the gradient of each sample's logit of its true class with respect to `activation`.
    """
    products = (activation * gradient).flatten(2).sum(2) if activation.dim() > 2 else activation * gradient
    vectors = products.new_zeros(classes, products.shape[1])
    return vectors.index_add_(0, labels, products).T


def preferred_class(vectors: Tensor) -> Tensor:
    """The argmax of each neuron's vector; -1 for a neuron that is inactive on all samples."""
    return torch.where((vectors != 0).any(1), vectors.argmax(1), -1)


def same_class_ratio(a: Tensor, b: Tensor) -> float:
    """Fraction of neurons with the same preferred class; neurons inactive in both networks count as the same."""
    return torch.eq(preferred_class(a), preferred_class(b)).double().mean().item()


def preference_spread(vectors: Tensor) -> float:
    """How far the neurons of a layer differ in what they prefer: mean over j of |p_j - mean p|, Fed²'s total variation.

    Vectors have length 1 here, because their scale depends on the width of the layer; inactive neurons are left out.
    """
    units = vectors[(vectors != 0).any(1)]
    units = units / units.norm(dim=1, keepdim=True)
    return (units - units.mean(0)).norm(dim=1).mean().item() if len(units) else 0.0


def layers_to_share(spreads: Mapping[str, float]) -> list[str]:
    """The layers before the largest rise of the spread, of at least two in their order: Fed² cuts the others."""
    rises = [after - before for before, after in pairwise(spreads.values())]
    return list(spreads)[: 1 + rises.index(max(rises))]
