"""The paper's shuffle process (Algorithm 1): move a controlled share of the neurons of every hidden layer."""

import torch
from torch import Tensor

from fedpan_exp.alignment.permutation_spec import PermutationSpec


def sample_permutation(neurons: int, P_sf: float, generator: torch.Generator) -> Tensor:
    """Swap each position j with a later one with probability P_sf."""
    permutation = list(range(neurons))
    swap = (torch.rand(neurons, generator=generator) <= P_sf).tolist() if P_sf > 0 else [False] * neurons
    reach = torch.rand(neurons, generator=generator).tolist()
    for j in range(neurons - 1):
        if swap[j]:
            i = j + 1 + int(reach[j] * (neurons - j - 1))
            permutation[j], permutation[i] = permutation[i], permutation[j]
    return torch.tensor(permutation)


def sample_permutations(spec: PermutationSpec, P_sf: float, generator: torch.Generator) -> dict[str, Tensor]:
    """One order for every group of neurons, section by section."""
    permutations = {}
    for group, size in spec.sizes.items():
        width = size // spec.sections[group]
        starts = range(0, size, width)
        permutations[group] = torch.cat([start + sample_permutation(width, P_sf, generator) for start in starts])
    return permutations
