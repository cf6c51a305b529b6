"""The shuffle error (Eq. 8): how much a shuffle changes the output of a network."""

from torch import Tensor


def shuffle_error(shuffled: Tensor, plain: Tensor) -> float:
    """|h_sf - h| / J_L, averaged over samples; both outputs are [samples, J_L]."""
    return ((shuffled - plain).norm(dim=1) / plain.shape[1]).mean().item()
