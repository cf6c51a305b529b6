"""Scaffold: Stochastic Controlled Averaging for Federated Learning (Karimireddy et al., ICML 2020), option II."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedpan_exp.algorithms.base import ClientContext, FedAvg, ServerState
from fedpan_exp.algorithms.update import ClientUpdate, average
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.training.flat import FlatNet


@dataclass
class Scaffold(FedAvg):
    """Steer each client by the gap between the server's control c and its own c_k."""

    server_lr: float = 1.0
    variant: str = "canonical"

    def __post_init__(self) -> None:
        require(self.server_lr > 0, "algorithm.server_lr", "above 0", self.server_lr)
        require_choice("algorithm.variant", self.variant, ("canonical", "authors"))

    def init_server(self, server: ServerState) -> None:
        server.state["control"] = torch.zeros_like(server.weights)

    def payload(self, server: ServerState) -> list[Tensor]:
        return [*super().payload(server), server.state["control"]]

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        own = client.state.setdefault("control", torch.zeros_like(client.server.weights))
        client.scratch["steer"] = net.views(client.server.state["control"] - own)

    def adjust_gradient(self, net: FlatNet, client: ClientContext) -> None:
        torch._foreach_add_(net.gradients(), client.scratch["steer"])

    def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, Tensor]:
        """c_k+ = c_k - c + (x - y_k) / travel; travel is steps x lr, exact under warm-up and momentum too."""
        change = (client.server.weights - net.weights).div_(client.accumulated_lr).sub_(client.server.state["control"])
        client.state["control"] = client.state["control"] + change
        return {"control_change": change}

    def aggregate(self, server: ServerState, updates: Iterable[ClientUpdate]) -> None:
        mean = average(updates)
        part = mean.clients / server.clients if self.variant == "canonical" else 1.0  # |S| / K
        server.weights = server.weights.lerp(mean.weights, self.server_lr)
        server.buffers = mean.buffers
        server.state["control"] = server.state["control"].add(mean.extra["control_change"], alpha=part)
