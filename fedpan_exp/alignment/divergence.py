"""Client drift per layer: weight divergence, gradient variance, cosine of updates."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from fedpan_exp.alignment.permutation_spec import PermutationSpec


def weights_by_layer(state: Mapping[str, Tensor], spec: PermutationSpec) -> dict[str, Tensor]:
    """Layer (fc1, head, conv1, block1_1.unit1, ...) -> its weight matrix or kernels W_l, without bias and norm."""
    matrices = [name for name, axes in spec.axes.items() if len(axes) > 1]
    return {_layer(name): state[name] for name in matrices}


def weight_divergence(local: Mapping[str, Tensor], mean: Mapping[str, Tensor]) -> dict[str, float]:
    """|W_l^k - W_l| of one client. The paper's figure shows the mean over the clients of a round."""
    return {layer: (local[layer] - mean[layer]).norm().item() for layer in mean}


def gradient_variances(gradients: Sequence[Mapping[str, Tensor]]) -> list[dict[str, float]]:
    """|g_l^k - g_l|^2 per client, where g_l is the mean over clients. Their mean is the variance over clients."""
    means = {layer: torch.stack([gradient[layer] for gradient in gradients]).mean(0) for layer in gradients[0]}
    return [
        {layer: (gradient[layer] - mean).square().sum().item() for layer, mean in means.items()}
        for gradient in gradients
    ]


def update_cosines(
    local: Mapping[str, Tensor], before: Mapping[str, Tensor], mean: Mapping[str, Tensor]
) -> dict[str, float]:
    """Cosine similarity of a client's update and the mean update; 1 if they point in the same direction."""
    deltas = {layer: (local[layer] - start, mean[layer] - start) for layer, start in before.items()}
    return {
        layer: F.cosine_similarity(delta.flatten(), mean_delta.flatten(), dim=0).item()
        for layer, (delta, mean_delta) in deltas.items()
    }


def _layer(name: str) -> str:
    return name.removesuffix(".weight").removesuffix(".conv").removeprefix("body.")
