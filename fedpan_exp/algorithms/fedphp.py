"""FedPHP: Federated Personalization with Inherited Private Models (Li et al., ECML PKDD 2021)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fedpan_exp.algorithms.base import ClientContext, FedAvg
from fedpan_exp.system.errors import require
from fedpan_exp.training import FlatNet, FlatParameters, classification_loss


@dataclass
class FedPHP(FedAvg):
    """Each client keeps a moving average of its local models, which teaches the next one: its personal model."""

    mu: float = 0.9
    ramp_rounds: float = 1.0
    distillation: float = 0.1
    temperature: float = 4.0

    def __post_init__(self) -> None:
        require(0 <= self.mu < 1, "algorithm.mu", "in [0, 1)", self.mu)
        require(self.ramp_rounds > 0, "algorithm.ramp_rounds", "above 0", self.ramp_rounds)
        require(0 <= self.distillation <= 1, "algorithm.distillation", "in [0, 1]", self.distillation)
        require(self.temperature > 0, "algorithm.temperature", "above 0", self.temperature)

    def check(self, experiment: Any) -> None:
        local_test = experiment.fl_scene.local_test
        require(local_test > 0, "fl_scene.local_test", "above 0 to test personal models (algorithm=fedphp)", local_test)

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        """In a client's first round its personal model is the global one."""
        server = client.server
        start = {"weights": server.weights, "buffers": server.buffers, "rounds": server.weights.new_zeros(())}
        client.state = start | client.state
        if self.distillation > 0:
            client.scratch["personal"] = net.frozen_logits(client.state["weights"], client.state["buffers"])

    def loss(self, net: FlatNet, x: Tensor, y: Tensor, client: ClientContext) -> Tensor:
        if self.distillation == 0:
            return super().loss(net, x, y, client)
        logits = net(x)
        target = (client.scratch["personal"](x) / self.temperature).softmax(1)
        return torch.lerp(classification_loss(logits, y), F.cross_entropy(logits, target), self.distillation)

    def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, Tensor]:
        """P+ = mu_n P + (1 - mu_n) y_k, where mu_n rises from 0 to mu over the client's rounds."""
        state = client.state
        mu = self.mu * (state["rounds"] / self.ramp_rounds).clamp(max=1)
        client.state = {
            "weights": mu * state["weights"] + (1 - mu) * net.weights,
            "buffers": mu * state["buffers"] + (1 - mu) * net.buffers,
            "rounds": state["rounds"] + 1,
        }
        return {}

    def personal_model(self, net: FlatNet, client: ClientContext) -> FlatParameters:
        return FlatParameters(client.state["weights"], client.state["buffers"])
