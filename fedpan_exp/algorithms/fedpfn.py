"""FedPFN and FedPNU: training-time neuron alignment by frozen weights (Zexi Li et al., arXiv 2402.01342)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedpan_exp.algorithms.base import ClientContext, FedAvg
from fedpan_exp.system.errors import require
from fedpan_exp.system.rng import rng
from fedpan_exp.training import FlatNet


@dataclass
class FedPFN(FedAvg):
    """Freeze the same random fraction rho of every weight matrix at all clients: it stays as initialised."""

    name: str = "fedpfn"
    rho: float = 0.4

    def __post_init__(self) -> None:
        require(0 < self.rho < 1, "algorithm.rho", "in (0, 1)", self.rho)

    def frozen(self, net: FlatNet, client: ClientContext) -> Tensor:
        return random_mask(net, client.seed, 0.0, self.rho)


@dataclass
class FedPNU(FedAvg):
    """Divide every weight matrix into random parts; one of them is frozen, another one in each round."""

    name: str = "fedpnu"
    parts: int = 2

    def __post_init__(self) -> None:
        require(self.parts >= 2, "algorithm.parts", "at least 2", self.parts)

    def frozen(self, net: FlatNet, client: ClientContext) -> Tensor:
        part = client.round_idx % self.parts
        return random_mask(net, client.seed, part / self.parts, (part + 1) / self.parts)


def random_mask(net: FlatNet, seed: int, low: float, high: float) -> Tensor:
    """Select the weights whose random number is in [low, high): one number per weight and run."""
    mask = torch.zeros_like(net.weights, dtype=torch.bool)
    for name, view in net.named_views(mask).items():
        if view.dim() > 1:
            drawn = torch.rand(view.shape, generator=rng(seed, "frozen part", name))
            view.copy_((drawn >= low) & (drawn < high))
    return mask
