"""MOON: Model-Contrastive Federated Learning (Li et al., CVPR 2021)."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from fedpan_exp.algorithms.base import ClientContext, FedAvg
from fedpan_exp.system.errors import require
from fedpan_exp.training import FlatNet, classification_loss


@dataclass
class Moon(FedAvg):
    """Keep a client's features near the global model's and away from those of its own previous model."""

    mu: float = 1.0
    temperature: float = 0.5

    def __post_init__(self) -> None:
        require(self.mu >= 0, "algorithm.mu", "at least 0", self.mu)
        require(self.temperature > 0, "algorithm.temperature", "above 0", self.temperature)

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        """In a client's first round its previous model is the global one: the contrastive term is constant."""
        if self.mu == 0:
            return
        weights, buffers = client.server.weights, client.server.buffers
        client.scratch["global"] = net.frozen_features(weights, buffers)
        previous = client.state.get("weights", weights), client.state.get("buffers", buffers)
        client.scratch["previous"] = net.frozen_features(*previous)

    def loss(self, net: FlatNet, x: Tensor, y: Tensor, client: ClientContext) -> Tensor:
        if self.mu == 0:
            return super().loss(net, x, y, client)
        features, logits = net.features_and_logits(x)
        sim_global = F.cosine_similarity(features, client.scratch["global"](x))
        sim_previous = F.cosine_similarity(features, client.scratch["previous"](x))
        contrast = F.softplus((sim_previous - sim_global) / self.temperature).mean()  # -log softmax of the two
        return classification_loss(logits, y) + self.mu * contrast

    def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, Tensor]:
        client.state.update(weights=net.weights.clone(), buffers=net.buffers.clone())
        return {}
