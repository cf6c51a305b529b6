"""All networks of the package, for tests of their permutation symmetry."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch

from conftest import experiment
from fedpan_exp.models import Network
from fedpan_exp.system.rng import rng

NORMS = ("none", "bn", "gn1", "gn8")
NETWORKS = [
    ("mlp", None),
    ("mlp model.groups=4", None),
    *((f"vgg{depth}", norm) for depth in (8, 9, 11, 13, 16, 19) for norm in NORMS),
    *(("vgg9 model.groups=4", norm) for norm in ("none", "bn", "gn8")),
    *(("resnet20", norm) for norm in NORMS),
]


def with_slow_tail(networks: Sequence[tuple[str, str | None]]) -> list[Any]:
    """For parametrize: VGGs that differ only in depth from a faster one are slow tests."""
    tail = [f"vgg{depth}" for depth in (8, 11, 13, 16, 19)]
    return [pytest.param(*net, marks=pytest.mark.slow) if net[0] in tail else net for net in networks]


def network(model: str, norm: str | None, *overrides: str) -> Network:
    """In double precision and eval mode, with biases and norm layers that differ between neurons."""
    norms = [f"model.norm={norm}"] if norm else []
    net = experiment("dataset=cifar10", *f"model={model}".split(), *norms, *overrides).network().double().eval()
    g = rng(0, "a trained look")
    for name, tensor in net.state_dict().items():
        if tensor.dim() == 1:
            noise = torch.rand(tensor.shape, generator=g, dtype=torch.float64)
            tensor.copy_(0.5 + noise if name.endswith(("weight", "running_var")) else 0.2 * noise)
    return net


@cache
def narrow(model: str) -> tuple[str, ...]:
    """Overrides that reduce the width to about an eighth and keep the depth, for slow tests."""
    settings = experiment("dataset=cifar10", *f"model={model}".split()).model
    if settings.name == "mlp":
        return ("model.width=64",)
    if model == "resnet20":
        return ("model.width=16",)
    widths = (token if token == "M" else str(max(16, int(token) // 8)) for token in settings.convs.split())
    return f"model.convs='{' '.join(widths)}'", f"model.hidden={[width // 8 for width in settings.hidden]}"
