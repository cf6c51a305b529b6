"""R_kept: how many neurons are still at their place after one shuffle, or after a client's whole visit."""

import torch
from torch import Tensor

from fedpan_exp.alignment.shuffle import sample_permutation


def kept_ratio(permutation: Tensor) -> float:
    """The share of ones on the diagonal of the permutation matrix."""
    return (permutation == torch.arange(len(permutation), device=permutation.device)).double().mean().item()


def accumulated_permutation(neurons: int, P_sf: float, N_sf: float, steps: int, generator: torch.Generator) -> Tensor:
    """Algorithm 2: at each of a visit's local steps a shuffle with probability N_sf / steps, one upon the other."""
    shuffles = int((torch.rand(steps, generator=generator) < N_sf / steps).sum())
    permutation = torch.arange(neurons)
    for _ in range(shuffles):
        permutation = permutation[sample_permutation(neurons, P_sf, generator)]
    return permutation
