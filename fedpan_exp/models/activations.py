"""Activations of hidden layers (after the ReLU) on a batch of images."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fedpan_exp.models.network import Network
from fedpan_exp.system.errors import require_choice

HEAD = "head"  # has no ReLU: its activations are the logits
POSITIONS = ("all", "max")
BATCH = 100  # images per forward pass: feature maps of conv layers are large


def check_layers(net: Network, layers: Sequence[str]) -> None:
    for layer in layers:
        require_choice("study.layers", layer, (*net.activation_modules, HEAD))


@contextmanager
def capture_activations(net: Network, layers: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Yield a dict of layer -> its activations in the latest forward pass, still attached to the autograd graph."""
    check_layers(net, layers)
    captured: dict[str, Tensor] = {}
    hooks = []
    for layer in layers:
        module = net.get_submodule(net.activation_modules.get(layer, layer))
        hooks.append(module.register_forward_hook(lambda _m, _x, out, layer=layer: captured.__setitem__(layer, out)))
    try:
        yield captured
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def activations(net: Network, x: Tensor, layers: Sequence[str], positions: str = "all") -> dict[str, Tensor]:
    """Layer -> activations [neurons, samples].

    The neurons of a conv layer are its channels: with `positions="all"` every position of the feature map is a sample,
    with "max" only its maximum.
    """
    net.eval()
    parts: dict[str, list[Tensor]] = {layer: [] for layer in layers}
    with capture_activations(net, layers) as captured:
        for batch in x.split(BATCH):
            net(batch.to(net.head.weight.dtype))
            for layer, out in captured.items():
                maps = out.flatten(2) if out.dim() > 2 else out[:, :, None]  # [N, C, positions]
                parts[layer].append((maps if positions == "all" else maps.amax(2, keepdim=True)).transpose(0, 1))
    return {layer: torch.cat([part.flatten(1) for part in batches], 1) for layer, batches in parts.items()}
