"""Randomness by name: the same seed and names give the same stream, whatever ran before, in whatever process.

So two runs that differ in one setting share every draw that this setting does not touch: PANs off and on meet the
same split, the same initial weights, the same clients and the same batches.
"""

from hashlib import blake2b

import numpy as np
import torch


def rng(seed: int, *names: str | int) -> torch.Generator:
    return torch.Generator().manual_seed(_derive(seed, *names))


def numpy_rng(seed: int, *names: str | int) -> np.random.Generator:
    return np.random.default_rng(_derive(seed, *names))


def _derive(seed: int, *names: str | int) -> int:
    return int.from_bytes(blake2b(repr((seed, *names)).encode(), digest_size=8).digest(), "big") >> 1
