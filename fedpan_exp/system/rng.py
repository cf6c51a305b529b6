"""Named random generators: the same seed and names give the same numbers, in any process and any order.

Two runs that differ in one setting therefore share every draw that does not depend on it: with PANs off and on, the
split, the initial weights, the clients of each round and the batches are the same.
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
