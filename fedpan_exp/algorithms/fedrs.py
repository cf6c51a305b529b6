"""FedRS: Federated Learning with Restricted Softmax (Li & Zhan, KDD 2021)."""

from dataclasses import dataclass

from torch import Tensor

from fedpan_exp.algorithms.base import ClientContext, FedAvg
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.training import FlatNet, classification_loss


@dataclass
class FedRS(FedAvg):
    """In local training, scale the logits of classes that the client lacks by alpha; authors: of rare classes too."""

    alpha: float = 0.5
    variant: str = "canonical"

    def __post_init__(self) -> None:
        require(0 <= self.alpha <= 1, "algorithm.alpha", "in [0, 1]", self.alpha)
        require_choice("algorithm.variant", self.variant, ("canonical", "authors"))

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        counts = client.label_counts.to(net.weights)
        presence = (counts > 0).to(counts) if self.variant == "canonical" else counts / counts.max()
        client.scratch["scale"] = 1 - (1 - self.alpha) * (1 - presence)  # [classes]; exactly 1 for a class it has

    def loss(self, net: FlatNet, x: Tensor, y: Tensor, client: ClientContext) -> Tensor:
        return classification_loss(net(x) * client.scratch["scale"], y)
