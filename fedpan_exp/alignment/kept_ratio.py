"""R_kept: the fraction of neurons that keep their position after one shuffle, or after a client's local training."""

import torch
from torch import Tensor

from fedpan_exp.alignment.shuffle import sample_permutation


def kept_ratio(perm: Tensor) -> float:
    """Fraction of fixed points: the mean of the diagonal of the permutation matrix."""
    return (perm == torch.arange(len(perm), device=perm.device)).double().mean().item()


def accumulated_permutation(neurons: int, P_sf: float, N_sf: float, steps: int, generator: torch.Generator) -> Tensor:
    """Algorithm 2: compose the shuffles of local training, one with probability N_sf / steps at each step."""
    shuffles = int((torch.rand(steps, generator=generator) < N_sf / steps).sum())
    perm = torch.arange(neurons)
    for _ in range(shuffles):
        perm = perm[sample_permutation(neurons, P_sf, generator)]
    return perm
