"""Plain matched averaging: align every local model with the server's by its weights, then average as FedAvg does.

The control for FedMA and for PANs: what is gained if nothing but the order of neurons is put right.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fedpan_exp.algorithms.base import ClientContext, FedAvg
from fedpan_exp.alignment.matching import match_weights
from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.system.errors import require
from fedpan_exp.system.rng import rng
from fedpan_exp.training import FlatNet


@dataclass
class Matched(FedAvg):
    """Permute each client's neurons by weight matching (Ainsworth et al., ICLR 2023) before they are averaged."""

    def check(self, experiment: Any) -> None:
        require_interchangeable_neurons(experiment)

    def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, Tensor]:
        """Done by the client, which has both models: the server need not keep those of the cohort."""
        spec, local = net.net.permutation_spec, net.copied_state()
        net.load(client.server.weights, client.server.buffers)
        permutations = match_weights(net.copied_state(), local, spec, rng(client.seed, "matching", client.k))
        net.net.load_state_dict(permute(local, spec, permutations))
        return {}


def require_interchangeable_neurons(experiment: Any) -> None:
    """Whatever is fixed per position makes a permuted network another one, or trains it in another way."""
    name, training = experiment.algorithm.name, experiment.training
    rule = f"off for algorithm={name}, which moves neurons to other positions"
    require(experiment.pans_off, "pan", rule, f"{experiment.pan.mode} with A={experiment.pan.A:g}")
    rule = f"trained with algorithm={name}, which moves the neurons that the head reads"
    require(experiment.model.head == "trained", "model.head", rule, experiment.model.head)
    rule = f"zero with algorithm={name}, which moves neurons away from their decay points"
    require(training.decay_to == "zero", "training.decay_to", rule, training.decay_to)
