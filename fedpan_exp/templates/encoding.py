"""A position encoding: a triangle wave.

python -m fedpan_exp plugins=[example.py] pan=mul pan.encoding=example
"""

import torch
from torch import Tensor


def example(J: int, T: float) -> Tensor:
    """Triangle wave with T periods over the J neurons of a layer: one value in [-1, 1] per neuron."""
    phase = T * torch.arange(J, dtype=torch.float64) / J % 1
    return 1 - 4 * (phase - 0.5).abs()


ENCODINGS = {"example": example}
