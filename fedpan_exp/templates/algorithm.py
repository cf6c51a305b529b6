"""A federated algorithm: FedAvg whose server goes only a part of the way to the clients' mean.

python -m fedpan_exp plugins=[example.py] algorithm=example
"""

from dataclasses import dataclass

import torch

from fedpan_exp.algorithms import CohortUpdate, FedAvg, ServerState
from fedpan_exp.system.errors import require


@dataclass
class Example(FedAvg):
    """Move the server by `server_lr` times the mean change of the clients."""

    name: str = "example"
    server_lr: float = 0.5

    def __post_init__(self) -> None:
        require(self.server_lr > 0, "algorithm.server_lr", "above 0", self.server_lr)

    # The hooks that are not here do what FedAvg does; fedpan_exp/algorithms/base.py lists them all.
    def aggregate(self, server: ServerState, update: CohortUpdate) -> None:
        server.weights = torch.lerp(server.weights, update.weights, self.server_lr)
        server.buffers = update.buffers


ALGORITHMS = {"example": Example}
