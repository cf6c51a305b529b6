"""The shuffle error (Eq. 8): what a network's output notices of a shuffle."""

from torch import Tensor


def shuffle_error(shuffled: Tensor, plain: Tensor) -> float:
    """|h_sf - h| / J_L, the mean over the samples; both are [samples, J_L]."""
    return ((shuffled - plain).norm(dim=1) / plain.shape[1]).mean().item()
