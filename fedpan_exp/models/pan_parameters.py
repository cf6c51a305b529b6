"""What a PAN decides about the parameters: initial biases, learning rates, entries that are not trained."""

import math

import torch
from torch import Tensor, nn

from fedpan_exp.models.block_layers import BlockConv2d, BlockLinear
from fedpan_exp.models.network import Network
from fedpan_exp.models.position import Pan, PositionEncoding, encodings
from fedpan_exp.system.errors import require
from fedpan_exp.system.rng import rng

NO_FACTOR = 1e-6  # a smaller 1 + e is 0 up to rounding


@torch.no_grad()
def set_pan_parameters(net: Network, pan: Pan, seed: int) -> None:
    """Called once, after initialisation. What is random is drawn by the seed and the name of the layer."""
    for encoding in () if pan.is_off else encodings(net):
        if pan.mode == "bias_init":
            net.get_parameter(f"{encoding.affine}.bias").add_(encoding.values)
        elif pan.mode == "rates":
            net.rates |= neuron_rates(net, encoding, encoding.values.square())
        elif pan.mode == "frozen_bias":
            bias = f"{encoding.affine}.bias"
            net.fixed[bias] = torch.ones_like(net.get_parameter(bias), dtype=torch.bool)
        elif pan.mode == "w_asym":
            layer, weight = net.get_submodule(encoding.weights), f"{encoding.weights}.weight"
            used = layer.mask if isinstance(layer, BlockLinear | BlockConv2d) else None
            generator = rng(seed, "w_asym", encoding.layer)
            net.fixed[weight] = fix_weights(net.get_parameter(weight), pan.n_fix, pan.A, generator, used)


def check_pan(net: Network, pan: Pan) -> None:
    """Raise ConfigError if the network cannot have this kind of PAN; its weights may be on the meta device."""
    if pan.mode == "w_asym":
        for encoding in encodings(net):
            layer = net.get_submodule(encoding.weights)
            blocks = layer.blocks if isinstance(layer, BlockLinear | BlockConv2d) else 1
            incoming = net.get_parameter(f"{encoding.weights}.weight")[0].numel() // blocks
            rule = f"at most {incoming}, the incoming weights of a neuron of {encoding.layer}"
            require(pan.n_fix <= incoming, "pan.n_fix", rule, pan.n_fix)


def check_rates(net: Network) -> None:
    """Raise ConfigError if the rates of PAN∘ cannot be compensated."""
    smallest = min((encoding.values.abs().min().item() for encoding in encodings(net)), default=1.0)
    rule = "plain where a neuron has the factor 1 + e = 0 (choose pan.A below 1)"
    require(smallest > NO_FACTOR, "training.neuron_rates", rule, "compensated")


def compensate_rates(net: Network) -> None:
    """Scale the learning rates of PAN∘ by 1 / (1 + e)^2, which makes it plain SGD from another start."""
    for encoding in encodings(net):
        net.rates |= neuron_rates(net, encoding, encoding.values.square().reciprocal())


def neuron_rates(net: Network, encoding: PositionEncoding, rates: Tensor) -> dict[str, Tensor]:
    """Name of parameter -> learning rates [neurons, 1, ...] of the layer that is encoded."""
    affine = net.get_submodule(encoding.affine)
    parameters: dict[str, nn.Parameter] = dict(affine.named_parameters(prefix=encoding.affine))
    return {name: per_neuron(rates, parameter) for name, parameter in parameters.items()}


def per_neuron(values: Tensor, parameter: Tensor) -> Tensor:
    """Shape one value per neuron so that it is broadcast over the entries of each neuron."""
    return values.view(-1, *[1] * (parameter.dim() - 1))


def fix_weights(
    weight: Tensor, n_fix: int, kappa: float, generator: torch.Generator, used: Tensor | None = None
) -> Tensor:
    """Set n_fix incoming weights of every neuron to kappa N(0, 1), at random places; return the mask of these.

    `used`: where the layer has weights at all, if not everywhere (block_layers.py).
    """
    rows = weight.reshape(len(weight), -1)
    order = torch.rand(rows.shape, generator=generator)
    if used is not None:
        order[(used == 0).expand_as(weight).reshape(rows.shape)] = math.inf
    drawn = order.argsort(1)[:, :n_fix]
    mask = torch.zeros(rows.shape, dtype=torch.bool).scatter_(1, drawn, True)
    values = kappa * torch.randn(rows.shape, generator=generator)
    weight.copy_(torch.where(mask, values, rows).view(weight.shape))
    return mask.view(weight.shape)
