"""FedMA: Federated Learning with Matched Averaging (Wang et al., ICLR 2020).

A round matches one layer, so a pass over a network of N layers takes N rounds, all with the same clients. In phase n of
a pass (from 0) the first n layers are matched and frozen. Clients train the others, starting from their own weights of
the previous phase, with the inputs of layer n + 1 moved to the places of the matched neurons. The server then matches
layer n + 1. In the last phase it averages the head, weighted by the clients' samples per class, and the global model is
whole. In the next pass each client starts from the global neurons that its own were matched to.

With gamma above 1, layers grow into the spare neurons of the network (model.spare), whose weights are zero. A client
then has fewer neurons than the server. The others are gaps: neurons of zero weights, which training does not change. A
client that had no part in the global model starts from the neurons that most clients have.

Unlike in the released code, the head is trained with the learning rate and weight decay of all layers, and the prior
mean of a bias is 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedpan_exp.algorithms.base import ClientContext, FedAvg, ServerContext, ServerState
from fedpan_exp.algorithms.matched import require_interchangeable_neurons
from fedpan_exp.algorithms.update import CohortUpdate
from fedpan_exp.alignment.bayesian_matching import Prior, estimate_atoms, match_atoms
from fedpan_exp.alignment.layer_chain import (
    Layer,
    count_entries,
    incoming_weights,
    layer_chain,
    rearrange,
    set_incoming_weights,
)
from fedpan_exp.alignment.permutation_spec import PermutationSpec
from fedpan_exp.models import initialise
from fedpan_exp.system.errors import ConfigError, require, require_choice
from fedpan_exp.system.rng import rng
from fedpan_exp.training import FlatNet

HEAD_EPOCHS = 3  # times as many as for other layers, as in the released code


@dataclass
class FedMA(FedAvg):
    """Match the neurons of the clients layer by layer, and average those that match.

    The server's state: the `rounds` done; the `matched` layers of the current pass, as one vector of weights; the
    number of neurons per group (`sizes`); per client, which of its neurons is at each global place, or -1 (`orders`).
    """

    gamma: float = 1.0
    averaging: str = "map"
    init: str = "own"
    needs_models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(self.gamma > 0, "algorithm.gamma", "above 0", self.gamma)
        require_choice("algorithm.averaging", self.averaging, ("map", "mean"))
        require_choice("algorithm.init", self.init, ("own", "common"))

    def check(self, experiment: Any) -> None:
        spec, H, model = experiment.meta_network().permutation_spec, experiment.fl_scene.H, experiment.model
        layers = len(layer_chain(spec))
        groups = getattr(model, "groups", 1)
        require(groups == 1, "model.groups", "1 with algorithm=fedma", groups)
        rule = "mlp, or vgg with model.norm=none, for algorithm=fedma, which matches a chain of layers"
        norm = f" with model.norm={model.norm}" if hasattr(model, "norm") else ""
        require(layers > 1, "model", rule, model.name + norm)
        require_interchangeable_neurons(experiment)
        rule = "uniform with algorithm=fedma, whose matched neurons count once per client"
        require(experiment.fl_scene.averaging == "uniform", "fl_scene.averaging", rule, experiment.fl_scene.averaging)
        if H % layers:
            raise ConfigError(
                f"fl_scene.H must be a multiple of {layers} for algorithm=fedma, one round per layer, got {H}: "
                f"pass {H // layers + 1} is left unfinished after {H % layers} of {layers} layers"
            )
        self._check_fork(experiment, layers)
        rule = "at most 1 for a network without spare neurons to grow into (model.spare)"
        require(self.gamma <= 1 or any(spec.spare.values()), "algorithm.gamma", rule, self.gamma)

    def _check_fork(self, experiment: Any, layers: int) -> None:
        fork = experiment.forked()
        if not fork:
            return
        has_state = fork.has_state_of(self, experiment.fl_scene, experiment.seed)
        uses_weights = self.init == "common" or has_state
        rule = "common with a fork of another algorithm or split: own starts from random weights, not from the fork's"
        require(uses_weights, "algorithm.init", rule, self.init)
        rule = f"RUN@ a multiple of {layers} for algorithm=fedma, whose passes over the layers begin there"
        require(fork.round_idx % layers == 0, "fork", rule, experiment.fork)

    def cohort_round(self, round_idx: int, net: FlatNet) -> int:
        return 1 + (round_idx - 1) // len(layers_of(net))

    def epochs(self, server: ServerState, E: float) -> float:
        is_head = phase_of(server) == len(server.state["sizes"])
        return HEAD_EPOCHS * E if is_head else E

    def init_server(self, server: ServerState, net: FlatNet) -> None:
        spec, device = net.net.permutation_spec, torch.device("cpu")
        own = [torch.arange(size, device=device, dtype=torch.int32) for size in spec.sizes.values()]
        for order, spare in zip(own, spec.spare.values(), strict=True):
            order[len(order) - spare :] = -1
        server.state["rounds"] = torch.zeros(1, dtype=torch.long, device=device)
        server.state["sizes"] = torch.zeros(len(own), dtype=torch.long, device=device)
        server.state["orders"] = torch.cat(own).repeat(server.clients, 1)
        server.state["matched"] = torch.zeros_like(server.weights)

    def payload(self, server: ServerState) -> list[Tensor]:
        return [*super().payload(server), *(server.state[name] for name in ("rounds", "sizes", "orders", "matched"))]

    def frozen(self, net: FlatNet, client: ClientContext) -> Tensor | None:
        if phase_of(client.server) == 0:
            return None
        mask = torch.zeros_like(net.weights, dtype=torch.bool)
        views = net.named_views(mask)
        for layer in layers_of(net)[: phase_of(client.server)]:
            for name in layer.tensors:
                views[name].fill_(True)
        return mask

    @torch.no_grad()
    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        if phase_of(client.server) > 0:
            self._continue_pass(net, client)
        elif int(client.server.state["rounds"]) == 0 and self.init == "own":
            initialise(net.net, rng(client.seed, "weights", client.k))
            client.down_bytes = 0
        else:
            self._start_pass(net, client)

    def _start_pass(self, net: FlatNet, client: ClientContext) -> None:
        """Keep the client's neurons of the global model. It has received all but the head already, if it is not new."""
        spec, weights, orders = net.net.permutation_spec, net.named_views(net.weights), client_orders(client, net)
        own = net.named_views(client.state["weights"]) if client.state else {}
        lacking = [
            layer for layer in layers_of(net) if not all(n in own and own[n].equal(weights[n]) for n in layer.tensors)
        ]
        client.down_bytes = sum(layer_bytes(net, layer, neuron_counts(orders)) for layer in lacking)
        own_places = {
            group: torch.arange(len(o), device=o.device).masked_fill_(o < 0, -1) for group, o in orders.items()
        }
        copy_tensors(weights, rearrange(weights, spec, own_places))

    def _continue_pass(self, net: FlatNet, client: ClientContext) -> None:
        """Take over the layers matched so far; the inputs of the next layer move to the places of matched neurons."""
        server, layers, phase = client.server, layers_of(net), phase_of(client.server)
        own, orders = net.named_views(client.state["weights"]), client_orders(client, net)
        matched, group = net.named_views(server.state["matched"]), layers[phase].inputs
        assert group, "the first layer is matched"
        following = {name: own[name] for name in layers[phase].tensors}
        moved = rearrange(following, net.net.permutation_spec, {group: orders[group]})
        known = {name: matched[name] for layer in layers[:phase] for name in layer.tensors}
        copy_tensors(net.named_views(net.weights), {**own, **known, **moved})
        order_bytes = 4 * neuron_counts(orders)[group]
        client.down_bytes = layer_bytes(net, layers[phase - 1], global_sizes(server, net)) + order_bytes

    def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, Tensor]:
        client.state["weights"] = net.weights.clone()
        layer = layers_of(net)[phase_of(client.server)]
        neurons = global_sizes(client.server, net)
        if layer.outputs:
            neurons[layer.outputs] = neuron_counts(client_orders(client, net))[layer.outputs]
        client.up_bytes = layer_bytes(net, layer, neurons)
        return {}

    def aggregate(self, server: ServerState, update: CohortUpdate) -> None:
        """The mean of unmatched models is of no use."""

    def fuse(self, server: ServerState, update: CohortUpdate, context: ServerContext) -> dict[str, float]:
        """Match the next layer of the cohort; after the head, the matched layers are the new global model."""
        net, cohort = context.trainer.net, context.cohort
        phase, layers = phase_of(server), layers_of(net)
        rows = [incoming_weights(net.named_views(model.weights), layers[phase]) for model in update.models]
        if layers[phase].outputs:
            generator = rng(context.seed, "matching", context.round_idx)
            result = self._match(rows, server, net, cohort, generator)
        else:
            result = average_head(rows, [context.clients.label_counts(k) for k in cohort])
        set_incoming_weights(net.named_views(server.state["matched"]), layers[phase], result)
        server.state["rounds"] += 1
        if phase_of(server) == 0:
            server.weights = server.state["matched"].clone()
            give_popular_neurons(server, net, cohort)
        metrics = {"fedma/layer": phase + 1.0, "fedma/neurons": float((result != 0).any(1).sum())}
        if phase == 0 and context.test is not None:
            net.load(update.weights, update.buffers)
            metrics["fedma/mean_acc"] = context.trainer.evaluate(context.test).accuracy  # without matching
        return metrics

    def is_tested(self, server: ServerState, is_due: bool) -> bool:
        """After each pass: within one, there is no new model."""
        return phase_of(server) == 0

    def _match(
        self, rows: list[Tensor], server: ServerState, net: FlatNet, cohort: list[int], generator: torch.Generator
    ) -> Tensor:
        """Match the neurons of the next group; set the clients' orders, and return the global neurons."""
        spec, number = net.net.permutation_spec, phase_of(server)
        group = list(spec.sizes)[number]
        orders = by_group(server.state["orders"], spec)[group]
        neurons = [(orders[k] >= 0).nonzero().flatten() for k in cohort]  # the places that are no gaps
        atoms = [client_rows[own] for client_rows, own in zip(rows, neurons, strict=True)]
        prior = Prior(gamma=self.gamma)
        size = spec.sizes[group] if self.gamma > 1 else len(atoms[0])
        matches = match_atoms(atoms, prior, generator, capacity=size)
        for k, own, match in zip(cohort, neurons, matches, strict=True):
            orders[k] = -1
            orders[k, match] = own.to(orders.dtype)
        server.state["sizes"][number] = (orders[cohort] >= 0).any(0).sum()
        return estimate_atoms(atoms, matches, spec.sizes[group], prior if self.averaging == "map" else None)


def layers_of(net: FlatNet) -> list[Layer]:
    return layer_chain(net.net.permutation_spec)


def phase_of(server: ServerState) -> int:
    """The number of layers that are matched in the current pass."""
    return int(server.state["rounds"]) % (len(server.state["sizes"]) + 1)


def by_group(orders: Tensor, spec: PermutationSpec) -> dict[str, Tensor]:
    """The orders of all groups [..., neurons] as one view per group."""
    return dict(zip(spec.sizes, orders.split(list(spec.sizes.values()), -1), strict=True))


def client_orders(client: ClientContext, net: FlatNet) -> dict[str, Tensor]:
    return by_group(client.server.state["orders"][client.k].long(), net.net.permutation_spec)


def neuron_counts(orders: Mapping[str, Tensor]) -> dict[str, int]:
    return {group: int((order >= 0).sum()) for group, order in orders.items()}


def global_sizes(server: ServerState, net: FlatNet) -> dict[str, int]:
    return dict(zip(net.net.permutation_spec.sizes, server.state["sizes"].tolist(), strict=True))


def layer_bytes(net: FlatNet, layer: Layer, neurons: Mapping[str, int]) -> int:
    """The bytes of a layer without gaps, whose groups have that many neurons."""
    entries = count_entries(layer, net.named_views(net.weights), net.net.permutation_spec, neurons)
    return entries * net.weights.element_size()


def copy_tensors(target: Mapping[str, Tensor], source: Mapping[str, Tensor]) -> None:
    for name, tensor in target.items():
        tensor.copy_(source[name])


def average_head(rows: Sequence[Tensor], label_counts: Sequence[Tensor]) -> Tensor:
    """[classes, entries]: each class is the mean over clients weighted by their samples of it, if there are any."""
    counts = torch.zeros(len(rows), len(rows[0]), dtype=torch.float64)
    for own, labels in zip(counts, label_counts, strict=True):
        own[: len(labels)] = labels
    counts[:, counts.sum(0) == 0] = 1
    return (torch.stack(list(rows)) * counts[:, :, None]).sum(0) / counts.sum(0)[:, None]


def give_popular_neurons(server: ServerState, net: FlatNet, cohort: list[int]) -> None:
    """Clients outside the cohort get the global neurons that most of the cohort has, as many as they had."""
    others = [k for k in range(server.clients) if k not in set(cohort)]
    for orders in by_group(server.state["orders"], net.net.permutation_spec).values():
        popular = (orders[cohort] >= 0).sum(0).argsort(descending=True, stable=True)
        count = int((orders[cohort[0]] >= 0).sum())
        order = torch.full_like(orders[0], -1)
        order[popular[:count]] = popular[:count].to(order.dtype)
        orders[others] = order
