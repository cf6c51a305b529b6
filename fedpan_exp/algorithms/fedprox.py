"""FedProx: Federated Optimization in Heterogeneous Networks (Li et al., MLSys 2020)."""

from dataclasses import dataclass

import torch

from fedpan_exp.algorithms.base import ClientContext, FedAvg
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.training import FlatNet


@dataclass
class FedProx(FedAvg):
    """Add mu/2 |w - w_server|^2 to the local loss; authors: mu times the summed mean smooth-L1 per tensor."""

    mu: float = 1e-3
    variant: str = "canonical"

    def __post_init__(self) -> None:
        require(self.mu >= 0, "algorithm.mu", "at least 0", self.mu)
        require_choice("algorithm.variant", self.variant, ("canonical", "authors"))

    @property
    def extra_weight_decay(self) -> float:
        """The term mu w of the gradient mu (w - w_server), applied by the optimizer as weight decay."""
        return self.mu if self.variant == "canonical" else 0.0

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        client.scratch["anchor"] = net.trained_views(client.server.weights)

    def adjust_gradient(self, net: FlatNet, client: ClientContext) -> None:
        if self.mu == 0:
            return
        anchor = client.scratch["anchor"]
        if self.variant == "canonical":
            torch._foreach_add_(net.gradients(), anchor, alpha=-self.mu)  # the term -mu w_server
            return
        for gradient, weight, start in zip(net.gradients(), net.trained, anchor, strict=True):
            gradient.add_((weight.detach() - start).clamp_(-1, 1), alpha=self.mu / weight.numel())
