"""FedDyn: Federated Learning Based on Dynamic Regularization (Acar et al., ICLR 2021)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedpan_exp.algorithms.base import ClientContext, FedAvg, ServerState
from fedpan_exp.algorithms.update import CohortUpdate
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.training import FlatNet


@dataclass
class FedDyn(FedAvg):
    """Clients minimise f_k(w) - <g_k, w> + alpha/2 |w - x|^2, and so agree where the sum of the f_k is smallest."""

    alpha: float = 0.01
    evaluate: str = "server"
    state_settings: ClassVar[tuple[str, ...]] = ("alpha",)  # the unit of the drift

    def __post_init__(self) -> None:
        require(self.alpha > 0, "algorithm.alpha", "above 0", self.alpha)
        require_choice("algorithm.evaluate", self.evaluate, ("server", "mean"))

    @property
    def extra_weight_decay(self) -> float:
        """The term alpha w of the gradient, applied by the optimizer as weight decay."""
        return self.alpha

    def init_server(self, server: ServerState, net: FlatNet) -> None:
        server.state["drift"] = torch.zeros_like(server.weights)  # -h / alpha

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        own = client.state.setdefault("gradient", torch.zeros_like(client.server.weights))  # g_k
        client.scratch["pull"] = net.trained_views(-own - self.alpha * client.server.weights)

    def adjust_gradient(self, net: FlatNet, client: ClientContext) -> None:
        torch._foreach_add_(net.gradients(), client.scratch["pull"])

    def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, Tensor]:
        """g_k+ = g_k - alpha (y_k - x)"""
        change = net.weights - client.server.weights
        client.state["gradient"] = client.state["gradient"].sub(change, alpha=self.alpha)
        return {}

    def aggregate(self, server: ServerState, update: CohortUpdate) -> None:
        """h+ = h - alpha/K sum_k (y_k - x), x+ = mean_k y_k - h+ / alpha; alpha cancels."""
        change = update.weights - server.weights
        server.state["drift"] = server.state["drift"].add(change, alpha=update.clients / server.clients)
        server.weights = update.weights + server.state["drift"]
        server.buffers = update.buffers

    def evaluated_weights(self, server: ServerState) -> Tensor:
        return server.weights if self.evaluate == "server" else server.weights - server.state["drift"]
