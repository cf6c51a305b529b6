"""Spare neurons: the last neurons of each hidden layer, with zero weights in and out.

With ReLU, and without norm layers and position encodings, SGD does not change them: the network computes and trains as
the narrower one without them. Matched averaging turns them into neurons where a layer grows.
"""

import torch
from torch import nn
from torch.nn.utils import skip_init

from fedpan_exp.models.network import INITIALISATIONS, Network
from fedpan_exp.models.position import Pan
from fedpan_exp.system.errors import require

Layer = nn.Conv2d | nn.Linear


def check_spare(spare: int, pan: Pan, norm: str = "none", groups: int = 1) -> None:
    require(spare >= 0, "model.spare", "at least 0", spare)
    rule = "0 with PANs or norm layers, which would give spare neurons an effect"
    require(not spare or (pan.is_off and norm == "none"), "model.spare", rule, spare)
    require(not spare or groups == 1, "model.spare", "0 with groups of classes (model.groups)", spare)


@torch.no_grad()
def initialise(net: Network, generator: torch.Generator) -> None:
    """Draw initial weights as `net.init` says, on any device. Spare neurons do not change the draws of the others."""
    if net.class_groups > 1:  # whose layers are masked, and have no spare neurons
        INITIALISATIONS[net.init](net, generator)
        return
    layers = {name: module for name, module in net.named_modules() if isinstance(module, Layer)}
    narrow = nn.ModuleList(_without_spare(net, name, layer, generator.device) for name, layer in layers.items())
    INITIALISATIONS[net.init](narrow, generator)
    for layer, drawn in zip(layers.values(), narrow, strict=True):
        for name, values in drawn.named_parameters():
            parameter = layer.get_parameter(name)
            parameter.zero_()
            parameter[tuple(map(slice, values.shape))] = values.to(parameter.device)


def _without_spare(net: Network, name: str, layer: Layer, device: torch.device) -> Layer:
    """A new layer with the same settings, for other numbers of neurons."""
    spec, weight = net.permutation_spec, layer.weight
    axes = spec.axes.get(f"{name}.weight", (None, None))[:2]
    spare = [spec.spare[axis.group] * axis.block if axis else 0 for axis in axes]
    outputs, inputs = (size - unused for size, unused in zip(weight.shape[:2], spare, strict=True))
    options = {"bias": layer.bias is not None, "device": device, "dtype": weight.dtype}
    if isinstance(layer, nn.Conv2d):
        return skip_init(nn.Conv2d, inputs, outputs, layer.kernel_size, **options)
    return skip_init(nn.Linear, inputs, outputs, **options)
