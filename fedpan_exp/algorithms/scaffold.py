"""Scaffold: Stochastic Controlled Averaging for Federated Learning (Karimireddy et al., ICML 2020), option II."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedpan_exp.algorithms.base import FedAvg, Server, Visit
from fedpan_exp.algorithms.update import Upload, average
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

    def start(self, server: Server) -> None:
        server.memory["control"] = torch.zeros_like(server.weights)

    def download(self, server: Server) -> list[Tensor]:
        return [*super().download(server), server.memory["control"]]

    def begin(self, net: FlatNet, visit: Visit) -> None:
        own = visit.memory.setdefault("control", torch.zeros_like(visit.server.weights))
        visit.desk["steer"] = net.views(visit.server.memory["control"] - own)

    def adjust_gradient(self, net: FlatNet, visit: Visit) -> None:
        torch._foreach_add_(net.gradients(), visit.desk["steer"])

    def finish(self, net: FlatNet, visit: Visit) -> dict[str, Tensor]:
        """c_k+ = c_k - c + (x - y_k) / travel; travel is steps x lr, exact under warm-up and momentum too."""
        change = (visit.server.weights - net.weights).div_(visit.travel).sub_(visit.server.memory["control"])
        visit.memory["control"] = visit.memory["control"] + change
        return {"control_change": change}

    def aggregate(self, server: Server, uploads: Iterable[Upload]) -> None:
        mean = average(uploads)
        part = mean.clients / server.clients if self.variant == "canonical" else 1.0  # |S| / K
        server.weights = server.weights.lerp(mean.weights, self.server_lr)
        server.buffers = mean.buffers
        server.memory["control"] = server.memory["control"].add(mean.extra["control_change"], alpha=part)
