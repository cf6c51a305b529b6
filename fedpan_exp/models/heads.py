"""Classifiers that are not trained: position-awareness that comes from the output side."""

import torch
from torch import Tensor

from fedpan_exp.models.block_layers import BlockLinear
from fedpan_exp.models.network import Network
from fedpan_exp.system.errors import require
from fedpan_exp.system.rng import rng


def check_head(net: Network, kind: str) -> None:
    features, classes = net.head.in_features, net.head.out_features
    fits = kind != "etf" or classes <= features
    require(fits, "model.head", f"trained or frozen for {classes} classes and {features} features", kind)
    is_whole = kind != "etf" or not isinstance(net.head, BlockLinear)
    require(is_whole, "model.head", "trained or frozen with model.groups, whose classes see different features", kind)


@torch.no_grad()
def fix_head(net: Network, kind: str, seed: int) -> None:
    """Exclude the head from training: as initialised (FedBABU, Oh et al., ICLR 2022) or as an ETF."""
    if kind == "trained":
        return
    if kind == "etf":
        net.head.weight.copy_(simplex_etf(net.head.out_features, net.head.in_features, rng(seed, "etf")))
        net.head.bias.zero_()
    for name, parameter in net.head.named_parameters(prefix="head"):
        net.fixed[name] = torch.ones_like(parameter, dtype=torch.bool)


def simplex_etf(classes: int, features: int, generator: torch.Generator) -> Tensor:
    """[classes, features]: unit vectors with pairwise cosines of -1 / (classes - 1), the widest that there are.

    The geometry of neural collapse, as a fixed classifier for all clients (Li et al., ICCV 2023).
    """
    axes, _ = torch.linalg.qr(torch.randn(features, classes, generator=generator))
    centred = torch.eye(classes) - 1 / classes
    return torch.nn.functional.normalize(centred @ axes.t(), dim=1)
