"""MOON: Model-Contrastive Federated Learning (Li et al., CVPR 2021)."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from fedpan_exp.algorithms.base import FedAvg, Visit
from fedpan_exp.system.errors import require
from fedpan_exp.training.flat import FlatNet


@dataclass
class Moon(FedAvg):
    """Keep a client's features near the global model's and away from its own previous model's."""

    mu: float = 1.0
    temperature: float = 0.5

    def __post_init__(self) -> None:
        require(self.mu >= 0, "algorithm.mu", "at least 0", self.mu)
        require(self.temperature > 0, "algorithm.temperature", "above 0", self.temperature)

    def begin(self, net: FlatNet, visit: Visit) -> None:
        """On a first visit the previous model is the global one: nothing to push away from yet."""
        if self.mu == 0:
            return
        server, memory = visit.server, visit.memory
        visit.desk["global"] = net.frozen(server.weights, server.buffers)
        visit.desk["previous"] = net.frozen(
            memory.get("weights", server.weights), memory.get("buffers", server.buffers)
        )

    def loss(self, net: FlatNet, x: Tensor, y: Tensor, visit: Visit) -> Tensor:
        if self.mu == 0:
            return super().loss(net, x, y, visit)
        features, logits = net.features_and_logits(x)
        pull = F.cosine_similarity(features, visit.desk["global"](x))
        push = F.cosine_similarity(features, visit.desk["previous"](x))
        contrast = F.softplus((push - pull) / self.temperature).mean()  # -log(e^pull / (e^pull + e^push))
        return F.cross_entropy(logits, y) + self.mu * contrast

    def finish(self, net: FlatNet, visit: Visit) -> dict[str, Tensor]:
        visit.memory.update(weights=net.weights.clone(), buffers=net.buffers.clone())
        return {}
