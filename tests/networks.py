"""Every network of the house, as tests of its symmetry take it."""

from functools import cache

import torch

from conftest import experiment
from fedpan_exp.models import Network
from fedpan_exp.system.rng import rng

NORMS = ("none", "bn", "gn1", "gn8")
NETWORKS = [
    ("mlp", None),
    *((f"vgg{depth}", norm) for depth in (8, 9, 11, 13, 16, 19) for norm in NORMS),
    *(("resnet20", norm) for norm in NORMS),
]


def network(model: str, norm: str | None, *words: str) -> Network:
    """In double precision, in the mode of evaluation."""
    norms = [f"model.norm={norm}"] if norm else []
    net = experiment("dataset=cifar10", f"model={model}", *norms, *words).network().double().eval()
    g = rng(0, "a trained look")  # biases and norm layers as they are after training: not all alike
    for name, tensor in net.state_dict().items():
        if tensor.dim() == 1:
            noise = torch.rand(tensor.shape, generator=g, dtype=torch.float64)
            tensor.copy_(0.5 + noise if name.endswith(("weight", "running_var")) else 0.2 * noise)
    return net


@cache
def narrow(model: str) -> tuple[str, ...]:
    """Settings that leave a network its depth and an eighth of its width or so: for what takes long."""
    settings = experiment("dataset=cifar10", f"model={model}").model
    if model == "mlp":
        return ("model.width=64",)
    if model == "resnet20":
        return ("model.width=16",)
    widths = (word if word == "M" else str(max(16, int(word) // 8)) for word in settings.convs.split())
    return f"model.convs='{' '.join(widths)}'", f"model.hidden={[width // 8 for width in settings.hidden]}"
