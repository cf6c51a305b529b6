"""How far clients drift apart, layer by layer."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from fedpan_exp.alignment.permutation_spec import PermutationSpec


def weights_by_layer(state: Mapping[str, Tensor], spec: PermutationSpec) -> dict[str, Tensor]:
    """The matrix or the kernels W_l of each layer: fc1 .. head, conv1 .., block1_1.unit1 ..; neither bias nor norm."""
    matrices = [name for name, axes in spec.axes.items() if len(axes) > 1]
    return {_layer(name): state[name] for name in matrices}


def weight_divergence(local: Mapping[str, Tensor], mean: Mapping[str, Tensor]) -> dict[str, float]:
    """|W_l^k - W_l| of one client; the paper's figure is its mean over the clients of a round."""
    return {layer: (local[layer] - mean[layer]).norm().item() for layer in mean}


def gradient_variances(gradients: Sequence[Mapping[str, Tensor]]) -> list[dict[str, float]]:
    """|g_l^k - g_l|^2 of each client, g_l the mean over them: the mean of these is the variance over clients."""
    means = {layer: torch.stack([gradient[layer] for gradient in gradients]).mean(0) for layer in gradients[0]}
    return [
        {layer: (gradient[layer] - mean).square().sum().item() for layer, mean in means.items()}
        for gradient in gradients
    ]


def update_cosines(
    local: Mapping[str, Tensor], before: Mapping[str, Tensor], mean: Mapping[str, Tensor]
) -> dict[str, float]:
    """The cosine between the way a client went and the way all went on average: 1 where all go the same way."""
    ways = {layer: (local[layer] - start, mean[layer] - start) for layer, start in before.items()}
    return {
        layer: F.cosine_similarity(own.flatten(), common.flatten(), dim=0).item()
        for layer, (own, common) in ways.items()
    }


def _layer(name: str) -> str:
    return name.removesuffix(".weight").removesuffix(".conv").removeprefix("body.")
