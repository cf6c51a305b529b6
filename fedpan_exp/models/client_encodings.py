"""Encodings of a client's own: the paper's idea for personalization, which it leaves for future work."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fedpan_exp.models.position import encodings
from fedpan_exp.system.rng import rng


@contextmanager
def use_client_encodings(net: nn.Module, seed: int, k: int) -> Iterator[None]:
    """While it lasts, client k's values are in the place of the shared ones, the same ones at each of its visits."""
    owned = [encoding for encoding in encodings(net) if encoding.own > 0 and not encoding.neutral]
    shared = [encoding.values for encoding in owned]
    for encoding, values in zip(owned, shared, strict=True):
        permutation = client_permutation(encoding.neurons, encoding.own, rng(seed, "encoding", k, encoding.layer))
        encoding.values = values[permutation.to(values.device)]
    try:
        yield
    finally:
        for encoding, values in zip(owned, shared, strict=True):
            encoding.values = values


def client_permutation(neurons: int, share: float, generator: torch.Generator) -> Tensor:
    """A share of the positions, drawn, exchange their values among themselves; whatever the encoding, all its values
    are there."""
    drawn = torch.randperm(neurons, generator=generator)[: round(share * neurons)]
    permutation = torch.arange(neurons)
    permutation[drawn] = drawn[torch.randperm(len(drawn), generator=generator)]
    return permutation
