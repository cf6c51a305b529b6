"""What a neuron's value may be, by its position: one function each, (J neurons, T waves) -> [J] values in [-1, 1]."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from fedpan_exp.system.rng import rng

NEGLIGIBLE = 1e-9  # a sine below this is a rounding error of sin(pi n)


def sine(J: int, T: float) -> Tensor:
    """The paper's: sin(2 pi T j / J). At T=1 two neurons share almost every value."""
    wave = torch.sin(2 * math.pi * _phase(J, T))
    return torch.where(wave.abs() < NEGLIGIBLE, 0.0, wave)


def cosine(J: int, T: float) -> Tensor:
    """A quarter of a wave ahead of the sine: the same values, but never neutral."""
    wave = torch.cos(2 * math.pi * _phase(J, T))
    return torch.where(wave.abs() < NEGLIGIBLE, 0.0, wave)


def sign(J: int, T: float) -> Tensor:
    """The sine's square wave: up in the first half of each wave, down in the second."""
    return torch.where(_phase(J, T) < 0.5, 1.0, -1.0).double()


def ramp(J: int, T: float) -> Tensor:
    """Evenly from -1 to 1: a value of its own for every neuron. Knows no T."""
    return torch.linspace(-1, 1, J, dtype=torch.float64, device="cpu")


def quarter(J: int, T: float) -> Tensor:
    """sin(pi j / 2 J), the sine until it turns: a value of its own for every neuron. Knows no T."""
    return torch.sin(math.pi / 2 * _phase(J, 1.0))


def random(J: int, T: float) -> Tensor:
    """Uniform draws, the same for all clients and seeds: part of the network, not of the run. Knows no T."""
    return 2 * torch.rand(J, dtype=torch.float64, generator=rng(0, "random encoding", J), device="cpu") - 1


ENCODINGS: dict[str, Callable[[int, float], Tensor]] = {
    "sine": sine,
    "cosine": cosine,
    "sign": sign,
    "ramp": ramp,
    "quarter": quarter,
    "random": random,
}


def _phase(J: int, T: float) -> Tensor:
    """Where in its wave each position lies, in [0, 1)."""
    # On the CPU even while a network is built without memory (torch's meta device), to see which values are neutral.
    return T * torch.arange(J, dtype=torch.float64, device="cpu") / J % 1
