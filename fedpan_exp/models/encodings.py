"""Position encodings: functions (J neurons, T periods) -> [J] values in [-1, 1]."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from fedpan_exp.system.errors import first_line
from fedpan_exp.system.rng import rng

NEGLIGIBLE = 1e-9  # smaller sines are rounding errors of sin(pi n) = 0


def sine(J: int, T: float) -> Tensor:
    """sin(2 pi T j / J), the paper's encoding. At T=1 almost every value belongs to two neurons."""
    wave = torch.sin(2 * math.pi * _phase(J, T))
    return torch.where(wave.abs() < NEGLIGIBLE, 0.0, wave)


def cosine(J: int, T: float) -> Tensor:
    """cos(2 pi T j / J): the sine shifted by a quarter period, and never all zero."""
    wave = torch.cos(2 * math.pi * _phase(J, T))
    return torch.where(wave.abs() < NEGLIGIBLE, 0.0, wave)


def sign(J: int, T: float) -> Tensor:
    """Square wave: 1 in the first half of each period, -1 in the second."""
    return torch.where(_phase(J, T) < 0.5, 1.0, -1.0).double()


def ramp(J: int, T: float) -> Tensor:
    """Linear from -1 to 1: every neuron has a distinct value. T does not apply."""
    return torch.linspace(-1, 1, J, dtype=torch.float64)


def quarter(J: int, T: float) -> Tensor:
    """sin(pi j / 2J), the rising quarter of the sine: every neuron has a distinct value. T does not apply."""
    return torch.sin(math.pi / 2 * _phase(J, 1.0))


def random(J: int, T: float) -> Tensor:
    """Uniform random values, the same for all clients and seeds: part of the architecture. T does not apply."""
    return 2 * torch.rand(J, dtype=torch.float64, generator=rng(0, "random encoding", J)) - 1


ENCODINGS: dict[str, Callable[[int, float], Tensor]] = {
    "sine": sine,
    "cosine": cosine,
    "sign": sign,
    "ramp": ramp,
    "quarter": quarter,
    "random": random,
}


def encode_positions(encoding: Callable[[int, float], Tensor], J: int, T: float) -> Tensor:
    """Call an encoding, which may be a plugin's; a ValueError says what it must do instead."""
    try:
        values = encoding(J, T)
    except Exception as error:  # whatever the function raises
        raise ValueError(
            f"return {J} values for J={J}, T={T:g}: it raises {type(error).__name__}: {first_line(error)}"
        ) from None
    if not isinstance(values, Tensor) or not values.is_floating_point():
        raise ValueError(f"return a tensor of J floating-point values, got {values!r:.100}")
    if values.shape != (J,):
        raise ValueError(f"return {J} values for J={J}, T={T:g}, got the shape {list(values.shape)}")
    if not bool((values.abs() <= 1).all()):  # false for nan
        raise ValueError(f"return values in [-1, 1], which it does not for J={J}, T={T:g}")
    return values


def _phase(J: int, T: float) -> Tensor:
    """Phase of each position within its period, in [0, 1)."""
    return T * torch.arange(J, dtype=torch.float64) / J % 1
