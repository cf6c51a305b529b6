"""What the neurons of a layer say to a batch of images: their values behind the ReLU."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fedpan_exp.models.network import Network
from fedpan_exp.system.errors import require_choice

HEAD = "head"  # the output layer has no ReLU: its values are the logits
POSITIONS = ("all", "max")
BATCH = 100  # images at a time: conv layers' maps are large


def check_layers(net: Network, layers: Sequence[str]) -> None:
    for layer in layers:
        require_choice("study.layers", layer, (*net.activation_modules, HEAD))


@contextmanager
def capture_activations(net: Network, layers: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Layer -> its activations in the latest forward pass, as the network goes on with them (gradients and all)."""
    check_layers(net, layers)
    seen: dict[str, Tensor] = {}
    hooks = []
    for layer in layers:
        module = net.get_submodule(net.activation_modules.get(layer, layer))
        hooks.append(module.register_forward_hook(lambda _m, _x, out, layer=layer: seen.__setitem__(layer, out)))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def activations(net: Network, x: Tensor, layers: Sequence[str], positions: str = "all") -> dict[str, Tensor]:
    """Layer -> [neurons, samples]; a channel speaks at all positions of its map, or with its maximum there."""
    net.eval()
    parts: dict[str, list[Tensor]] = {layer: [] for layer in layers}
    with capture_activations(net, layers) as seen:
        for batch in x.split(BATCH):
            net(batch.to(net.head.weight.dtype))
            for layer, out in seen.items():
                maps = out.flatten(2) if out.dim() > 2 else out[:, :, None]  # [N, C, positions]
                parts[layer].append((maps if positions == "all" else maps.amax(2, keepdim=True)).transpose(0, 1))
    return {layer: torch.cat([part.flatten(1) for part in found], 1) for layer, found in parts.items()}
