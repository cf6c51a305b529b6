"""What a PAN decides about the parameters: initial biases, learning rates, entries that are not trained."""

import torch
from torch import Tensor, nn

from fedpan_exp.models.network import Network
from fedpan_exp.models.position import Pan, PositionEncoding, encodings
from fedpan_exp.system.errors import require
from fedpan_exp.system.rng import rng


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
            weight = f"{encoding.weights}.weight"
            generator = rng(seed, "w_asym", encoding.layer)
            net.fixed[weight] = fix_weights(net.get_parameter(weight), pan.n_fix, pan.A, generator)


def check_pan(net: Network, pan: Pan) -> None:
    """Raise ConfigError if the network cannot have this kind of PAN; its weights may be on the meta device."""
    if pan.mode == "w_asym":
        for encoding in encodings(net):
            incoming = net.get_parameter(f"{encoding.weights}.weight")[0].numel()
            rule = f"at most {incoming}, the incoming weights of a neuron of {encoding.layer}"
            require(pan.n_fix <= incoming, "pan.n_fix", rule, pan.n_fix)


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


def fix_weights(weight: Tensor, n_fix: int, kappa: float, generator: torch.Generator) -> Tensor:
    """Set n_fix incoming weights of every neuron to kappa N(0, 1), at random places; return the mask of these."""
    rows = weight.reshape(len(weight), -1)
    drawn = torch.rand(rows.shape, generator=generator).argsort(1)[:, :n_fix]
    mask = torch.zeros(rows.shape, dtype=torch.bool).scatter_(1, drawn, True)
    values = kappa * torch.randn(rows.shape, generator=generator)
    weight.copy_(torch.where(mask, values, rows).view(weight.shape))
    return mask.view(weight.shape)
