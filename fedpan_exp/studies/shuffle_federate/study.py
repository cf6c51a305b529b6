"""What do misplaced neurons cost? Federated training with shuffled neurons at the clients (Algorithm 2)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.shuffle import sample_permutations
from fedpan_exp.config import Experiment
from fedpan_exp.data import Batch, Clients
from fedpan_exp.studies.federate.study import Federate, run_federated
from fedpan_exp.studies.shared.setup import set_up
from fedpan_exp.system.errors import require
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import LocalTrainer


@dataclass
class ShuffleFederate(Federate):
    """Shuffles each client's network N_sf times per round in expectation."""

    name: str = "shuffle_federate"
    N_sf: float = 0.2
    P_sf: float = 0.1

    def __post_init__(self) -> None:
        require(math.isfinite(self.N_sf) and self.N_sf >= 0, "study.N_sf", "at least 0", self.N_sf)
        require(0 <= self.P_sf <= 1, "study.P_sf", "in [0, 1]", self.P_sf)

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        setup = set_up(experiment)
        clients = ShufflingClients(setup.clients, setup.trainer, self.N_sf, self.P_sf)
        run_federated(experiment, replace(setup, clients=clients), record, stop)


class ShufflingClients(Clients):
    """Clients whose neurons may be shuffled before each training batch."""

    def __init__(self, clients: Clients, trainer: LocalTrainer, N_sf: float, P_sf: float):
        vars(self).update(vars(clients))  # the same data
        self.trainer, self.N_sf, self.P_sf = trainer, N_sf, P_sf

    def batches(
        self, k: int, round_idx: int, E: float, B: int, skip_single: bool = False, steps: int | None = None
    ) -> Iterator[Batch]:
        """Shuffle with probability N_sf / r_k before each of the r_k steps, so at most once per step."""
        generator = rng(self.seed, "shuffle", round_idx, k)
        r_k = steps or self.steps(k, E, B)
        for batch in super().batches(k, round_idx, E, B, skip_single, steps):
            if torch.rand((), generator=generator).item() < self.N_sf / r_k:
                shuffle(self.trainer, self.P_sf, generator)
            yield batch


@torch.no_grad()
def shuffle(trainer: LocalTrainer, P_sf: float, generator: torch.Generator) -> None:
    """Permute neurons together with their weights, norm statistics and momentum.

    What belongs to positions is not permuted: encodings, FedProx's anchor, Scaffold's control variates and MOON's
    reference models. The server averages by position, so that a shuffled neuron is averaged with other neurons.
    """
    net = trainer.net.net
    permutations = sample_permutations(net.permutation_spec, P_sf, generator)
    for tensors in (net.state_dict(), trainer.momenta()):
        for name, moved in permute(tensors, net.permutation_spec, permutations).items():
            tensors[name].copy_(moved)
