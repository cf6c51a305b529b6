"""Position encodings per client: the paper's idea for personalization, which it leaves to future work."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fedpan_exp.models.position import encodings
from fedpan_exp.system.rng import rng


@contextmanager
def use_client_encodings(net: nn.Module, seed: int, k: int) -> Iterator[None]:
    """Replace the shared values by client k's, which are the same in every round; restore them on exit."""
    replaced = [encoding for encoding in encodings(net) if encoding.client_fraction > 0 and not encoding.neutral]
    shared = [encoding.values for encoding in replaced]
    for encoding, values in zip(replaced, shared, strict=True):
        generator = rng(seed, "encoding", k, encoding.layer)
        permutation = client_permutation(encoding.neurons, encoding.client_fraction, generator)
        encoding.values = values[permutation.to(values.device)]
    try:
        yield
    finally:
        for encoding, values in zip(replaced, shared, strict=True):
            encoding.values = values


def client_permutation(neurons: int, fraction: float, generator: torch.Generator) -> Tensor:
    """Permute a random fraction of the positions among themselves, so that the set of values stays the same."""
    drawn = torch.randperm(neurons, generator=generator)[: round(fraction * neurons)]
    permutation = torch.arange(neurons)
    permutation[drawn] = drawn[torch.randperm(len(drawn), generator=generator)]
    return permutation
