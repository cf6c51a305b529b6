"""Scaffold: Stochastic Controlled Averaging for Federated Learning (Karimireddy et al., ICML 2020), option II."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedpan_exp.algorithms.base import ClientContext, FedAvg, ServerState
from fedpan_exp.algorithms.update import CohortUpdate
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.training import FlatNet


@dataclass
class Scaffold(FedAvg):
    """Correct each client's gradients by the difference of the server's control c and its own c_k."""

    server_lr: float = 1.0
    variant: str = "canonical"

    def __post_init__(self) -> None:
        require(self.server_lr > 0, "algorithm.server_lr", "above 0", self.server_lr)
        require_choice("algorithm.variant", self.variant, ("canonical", "authors"))

    def init_server(self, server: ServerState, net: FlatNet) -> None:
        server.state["control"] = torch.zeros_like(server.weights)

    def payload(self, server: ServerState) -> list[Tensor]:
        return [*super().payload(server), server.state["control"]]

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        own = client.state.setdefault("control", torch.zeros_like(client.server.weights))
        client.scratch["correction"] = net.trained_views(client.server.state["control"] - own)

    def adjust_gradient(self, net: FlatNet, client: ClientContext) -> None:
        torch._foreach_add_(net.gradients(), client.scratch["correction"])

    def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, Tensor]:
        """c_k+ = c_k - c + (x - y_k) / accumulated_lr, which is steps x lr without warm-up and momentum."""
        server = client.server
        change = (server.weights - net.weights).div_(client.accumulated_lr).sub_(server.state["control"])
        client.state["control"] = client.state["control"] + change
        return {"control_change": change}

    def aggregate(self, server: ServerState, update: CohortUpdate) -> None:
        fraction = 1.0 if self.variant == "authors" else update.clients / server.clients  # |S| / K
        server.weights = server.weights.lerp(update.weights, self.server_lr)
        server.buffers = update.buffers
        server.state["control"] = server.state["control"].add(update.extras["control_change"], alpha=fraction)
