"""The paper's shuffle process (Algorithm 1): permute a controlled fraction of the neurons of each hidden layer."""

import torch
from torch import Tensor

from fedpan_exp.alignment.permutation_spec import PermutationSpec


def sample_permutation(neurons: int, P_sf: float, generator: torch.Generator) -> Tensor:
    """Swap each position j with a random later one with probability P_sf."""
    perm = list(range(neurons))
    swap = (torch.rand(neurons, generator=generator) <= P_sf).tolist() if P_sf > 0 else [False] * neurons
    offset = torch.rand(neurons, generator=generator).tolist()
    for j in range(neurons - 1):
        if swap[j]:
            i = j + 1 + int(offset[j] * (neurons - j - 1))
            perm[j], perm[i] = perm[i], perm[j]
    return torch.tensor(perm)


def sample_permutations(spec: PermutationSpec, P_sf: float, generator: torch.Generator) -> dict[str, Tensor]:
    """One permutation per group of neurons, drawn section by section."""
    permutations = {}
    for group, size in spec.sizes.items():
        width = size // spec.sections[group]
        starts = range(0, size, width)
        permutations[group] = torch.cat([start + sample_permutation(width, P_sf, generator) for start in starts])
    return permutations
