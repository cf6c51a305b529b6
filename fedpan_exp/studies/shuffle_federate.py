"""How much do misplaced neurons cost? Federated training whose clients shuffle their neurons (Algorithm 2)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.shuffle import shuffled_orders
from fedpan_exp.config import Experiment
from fedpan_exp.data import Batch, Clients
from fedpan_exp.studies.federate import Federate, run_federated
from fedpan_exp.studies.setup import set_up
from fedpan_exp.system.errors import require
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import LocalTrainer


@dataclass
class ShuffleFederate(Federate):
    """Each client's network is shuffled N_sf times a visit, in expectation."""

    name: str = "shuffle_federate"
    N_sf: float = 0.2
    P_sf: float = 0.1

    def __post_init__(self) -> None:
        require(math.isfinite(self.N_sf) and self.N_sf >= 0, "study.N_sf", "at least 0", self.N_sf)
        require(0 <= self.P_sf <= 1, "study.P_sf", "in [0, 1]", self.P_sf)

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        world = set_up(experiment)
        clients = ShufflingClients(world.clients, world.trainer, self.N_sf, self.P_sf)
        run_federated(experiment, replace(world, clients=clients), record, stop)


class ShufflingClients(Clients):
    """Clients like any other, but before a batch is trained on, the neurons may change places."""

    def __init__(self, clients: Clients, trainer: LocalTrainer, N_sf: float, P_sf: float):
        vars(self).update(vars(clients))  # the same data
        self.trainer, self.N_sf, self.P_sf = trainer, N_sf, P_sf

    def batches(self, k: int, round_idx: int, E: int, B: int, skip_single: bool = False) -> Iterator[Batch]:
        """With probability N_sf / r_k, r_k the steps of the visit; so at most once a step."""
        generator = rng(self.seed, "shuffle", round_idx, k)
        r_k = E * math.ceil(self.samples(k) / B)
        for batch in super().batches(k, round_idx, E, B, skip_single):
            if torch.rand((), generator=generator).item() < self.N_sf / r_k:
                shuffle(self.trainer, self.P_sf, generator)
            yield batch


@torch.no_grad()
def shuffle(trainer: LocalTrainer, P_sf: float, generator: torch.Generator) -> None:
    """Neurons move with their weights, norm statistics and momentum.

    What belongs to positions stays: encodings, FedProx's anchor, Scaffold's controls, MOON's reference models. The
    server averages by position, and a misplaced neuron is one that it and they take for another.
    """
    net = trainer.net.net
    orders = shuffled_orders(net.permutation_spec, P_sf, generator)
    for tensors in (net.state_dict(), trainer.momenta()):
        for name, moved in permute(tensors, net.permutation_spec, orders).items():
            tensors[name].copy_(moved)
