"""Fed²: Feature-Aligned Federated Learning (Yu et al., KDD 2021)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedpan_exp.algorithms.base import ClientContext, FedAvg, ServerState
from fedpan_exp.algorithms.update import CohortUpdate
from fedpan_exp.models import count_weights, group_of, weight_groups
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.training import FlatNet, classification_loss


@dataclass
class Fed2(FedAvg):
    """Average each group of classes over the clients that have its classes, and the shared layers over all clients."""

    absent: str = "masked"

    def __post_init__(self) -> None:
        require_choice("algorithm.absent", self.absent, ("masked", "trained"))

    def check(self, experiment: Any) -> None:
        groups = experiment.meta_network().class_groups
        require(groups > 1, "model.groups", "above 1 with algorithm=fed2 (a VGG or MLP can have groups)", groups)

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        groups = net.net.class_groups
        class_groups = group_of(net.net.head.out_features, groups)
        present = torch.zeros(groups + 2, dtype=torch.bool)  # the last two: shared weights, weights that are always 0
        present[class_groups[client.label_counts.nonzero().flatten()]] = present[groups] = True
        owned = torch.empty(len(net.weights), dtype=torch.bool)
        of_weights = weight_groups(net.net, net.net.permutation_spec, groups)
        for view, group in zip(net.views(owned), of_weights, strict=True):
            view.copy_(present[group])
        client.scratch["owned"] = owned.to(net.weights.device)
        client.scratch["absent"] = ~present[class_groups].to(net.weights.device)
        # A client carries the shared layers and its own groups; to train all logits, it needs the others too.
        client.up_bytes = int(owned.sum()) * net.weights.itemsize
        received = int(owned.sum()) if self.absent == "masked" else count_weights(net.net)
        client.down_bytes = received * net.weights.itemsize

    def loss(self, net: FlatNet, x: Tensor, y: Tensor, client: ClientContext) -> Tensor:
        """Cross entropy over the classes of the client's own groups: it has no samples of the others."""
        logits = net(x)
        if self.absent == "masked":
            logits = logits.masked_fill(client.scratch["absent"], -torch.inf)
        return classification_loss(logits, y)

    def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, Tensor]:
        owned = client.scratch["owned"]
        return {"own": net.weights * owned, "owned": owned.to(net.weights.dtype)}

    def aggregate(self, server: ServerState, update: CohortUpdate) -> None:
        """A weight is the mean over its owners; one that nobody of the cohort owns stays."""
        own, owned = update.extras["own"], update.extras["owned"]
        server.weights = torch.where(owned > 0, own / owned, server.weights)
        server.buffers = update.buffers
