"""The plain network that a PAN network is said to be: its weights and its learning rates. See docs/identity.md."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedpan_exp.config import Experiment
from fedpan_exp.models import Network, encodings, per_neuron
from fedpan_exp.training import FlatNet


@dataclass
class TwinMap:
    """The twin's weights are scale x weights + shift; its neurons learn with scale^2 times the rate."""

    scale: Tensor
    shift: Tensor

    def __call__(self, weights: Tensor) -> Tensor:
        return self.scale * weights + self.shift


def twin_map(net: FlatNet) -> TwinMap:
    """Absorb every encoding into the layer before it.

    PAN+ is a shift of biases by e, PAN∘ a scale of rows and biases by 1 + e. Kinds that cannot be absorbed are mapped
    to their plain network: a frozen bias of e to a trained one that starts there, the others weight by weight.
    """
    scale, shift = torch.ones_like(net.weights), torch.zeros_like(net.weights)
    scales, shifts = net.named_views(scale), net.named_views(shift)
    for encoding in encodings(net.net):
        values = encoding.values.to(scale)
        if encoding.mode == "mul":
            for part in ("weight", "bias"):
                view = scales[f"{encoding.affine}.{part}"]
                view.mul_(per_neuron(values, view))
        elif encoding.mode in ("add", "frozen_bias"):
            shifts[f"{encoding.affine}.bias"].add_(values)
    return TwinMap(scale, shift)


def twin_rates(net: Network) -> dict[str, Tensor]:
    """Learning rates of the twin: those of the PAN network times (1 + e)^2."""
    rates = {name: rate.double() for name, rate in net.rates.items()}
    for encoding in encodings(net):
        if encoding.mode == "mul":
            for part in ("weight", "bias"):
                name = f"{encoding.affine}.{part}"
                own = rates.get(name, torch.ones((), dtype=torch.float64))
                rates[name] = own * per_neuron(encoding.values.double().square(), net.get_parameter(name))
    return rates


def broken_conditions(experiment: Experiment) -> list[str]:
    """The settings under which the twin is not the same run, each with the reason."""
    pan, training, algorithm = experiment.pan, experiment.training, experiment.algorithm
    scales = pan.mode == "mul"
    conditions = {
        f"pan={pan.mode}: what it fixes is not a start or a learning rate of trained weights": not pan.is_absorbable,
        f"pan.per_client={pan.per_client}: clients average weights that mean different things": (
            pan.per_client != "shared"
        ),
        f"training.weight_decay={training.weight_decay:g}: it pulls to another point or at another rate": (
            training.weight_decay > 0
        ),
        f"training.clip={training.clip}: the norm of the gradient is another one": scales and training.clip is not None,
        f"algorithm.server_optimizer={getattr(algorithm, 'server_optimizer', '')}: it rescales every coordinate": (
            scales and getattr(algorithm, "server_optimizer", "sgd") != "sgd"
        ),
    }
    return [condition for condition, is_broken in conditions.items() if is_broken]
