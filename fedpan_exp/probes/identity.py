"""Probes of the neurons' identity: do clients agree on which neuron is where? See docs/identity.md."""

from collections.abc import Mapping

import torch
from torch import Tensor

from fedpan_exp.alignment.kept_ratio import kept_ratio
from fedpan_exp.alignment.matching import match_weights
from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.swap_cost import swap_costs
from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.federation import Snapshot
from fedpan_exp.models import Network, encodings
from fedpan_exp.system.rng import rng
from fedpan_exp.training import FlatNet, FlatParameters, LocalTrainer

SAMPLES = 500  # of the test set; all if there are fewer
CLIENTS = 2  # of the cohort that are compared: matching wide networks takes seconds
LINE = (0.25, 0.5, 0.75)  # where the loss between two models is measured; single layers only midway


class SwapCostProbe:
    """The cheapest and the median swap cost of two neurons per layer, where weights can take another's part."""

    def __init__(self, trainer: LocalTrainer, clients: Clients, test: ImageTensors):
        self.net = trainer.net

    def measure(self, snapshot: Snapshot) -> list[dict[str, float]]:
        return [self.costs(self.net.named_views(local.weights)) for local in snapshot.local_models[:CLIENTS]]

    def costs(self, state: Mapping[str, Tensor]) -> dict[str, float]:
        costs = layer_swap_costs(self.net.net, state)
        values = {layer: cost.min().item() for layer, cost in costs.items()}
        return values | {f"{layer}_median": cost.median().item() for layer, cost in costs.items()}


def layer_swap_costs(net: Network, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Layer -> swap costs of its pairs of neurons, for a state of the network."""
    layers = {}
    for encoding in encodings(net):
        module = encoding.weights if encoding.mode == "w_asym" else encoding.affine
        if not module:  # the encoding is at the activation
            continue
        weight, fixed = state[f"{module}.weight"].detach().cpu(), net.fixed.get(f"{module}.weight")
        bias = state.get(f"{module}.bias", weight.new_zeros(len(weight))).detach().cpu()
        flat_mask = None if fixed is None else fixed.flatten(1)
        rows = weight.reshape(len(weight), -1)
        costs = swap_costs(encoding.mode, rows, bias, encoding.values.cpu(), flat_mask)
        if costs is not None and len(costs):
            layers[encoding.layer] = costs
    return layers


class MatchingGapProbe:
    """Weight matching of each client with the mean: the fraction of neurons that would move, per group, and the gain.

    `gain` is the fraction of the squared distance to the mean that moving them would save.
    """

    def __init__(self, trainer: LocalTrainer, clients: Clients, test: ImageTensors):
        self.net, self.seed = trainer.net, clients.seed

    def measure(self, snapshot: Snapshot) -> list[dict[str, float]]:
        mean = state_of(self.net, snapshot.mean)
        return [self.gap(mean, state_of(self.net, local)) for local in snapshot.local_models[:CLIENTS]]

    def gap(self, mean: dict[str, Tensor], local: dict[str, Tensor]) -> dict[str, float]:
        spec = self.net.net.permutation_spec
        permutations = match_weights(mean, local, spec, rng(self.seed, "matching gap"))
        before, after = distance(mean, local, spec.axes), distance(mean, permute(local, spec, permutations), spec.axes)
        moved = {group: 1 - kept_ratio(permutation) for group, permutation in permutations.items()}
        return {**moved, "gain": 1 - after / before if before else 0.0}


class BarrierProbe:
    """Loss barriers on the line between two clients (`pair`) and between a client and the mean (`mean`).

    A barrier is the largest excess of the test loss on the line over the line between the losses of its ends; it is
    negative where averaging two models improves on both. Of a single group of neurons: the excess if only its weights
    are moved halfway to the other client's. `_matched`: after the neurons of the other model are matched by weights.
    Where that lowers a barrier, neurons were misaligned.
    """

    def __init__(self, trainer: LocalTrainer, clients: Clients, test: ImageTensors):
        self.trainer, self.net, self.seed = trainer, trainer.net, clients.seed
        drawn = torch.randperm(len(test), generator=rng(clients.seed, "samples"))[:SAMPLES]
        self.samples = test[drawn.to(test.x.device)]

    def measure(self, snapshot: Snapshot) -> list[dict[str, float]]:
        models, values = snapshot.local_models, []
        for i, model in enumerate(models[:CLIENTS]):
            other = models[(i + 1) % len(models)]
            matched = self.barriers(model, self.matched(model, other))
            values.append(
                {
                    **self.barriers(model, other),
                    **{f"{name}_matched": value for name, value in matched.items()},
                    "mean": self.whole(model, snapshot.mean),
                    "mean_matched": self.whole(model, self.matched(model, snapshot.mean)),
                }
            )
        return values

    def barriers(self, a: FlatParameters, b: FlatParameters) -> dict[str, float]:
        """`pair`: of whole networks; then one barrier per group of neurons and for the head."""
        values, spec = {"pair": self.whole(a, b)}, self.net.net.permutation_spec
        start = self.loss(a)
        groups: dict[str, list[str]] = {}
        for name in self.net.named_views(a.weights):
            axis = spec.axes[name][0]
            groups.setdefault(axis.group if axis else "head", []).append(name)
        for group, names in groups.items():
            mixed = a.weights.clone()
            views, other = self.net.named_views(mixed), self.net.named_views(b.weights)
            for name in names:
                views[name].lerp_(other[name], 0.5)
            values[group] = self.loss(FlatParameters(mixed, a.buffers)) - start
        return values

    def whole(self, a: FlatParameters, b: FlatParameters) -> float:
        ends = self.loss(a), self.loss(b)
        excess = [
            self.loss(FlatParameters(*(x.lerp(y, t) for x, y in zip(a, b, strict=True))))
            - ((1 - t) * ends[0] + t * ends[1])
            for t in LINE
        ]
        return max(excess)

    def matched(self, a: FlatParameters, b: FlatParameters) -> FlatParameters:
        """`b` with its neurons permuted to be close to those of `a`."""
        spec, theirs = self.net.net.permutation_spec, state_of(self.net, b)
        permutations = match_weights(state_of(self.net, a), theirs, spec, rng(self.seed, "barrier"))
        self.net.net.load_state_dict(permute(theirs, spec, permutations))
        return FlatParameters(self.net.weights, self.net.buffers).cpu_copy()

    def loss(self, model: FlatParameters) -> float:
        self.net.load(*model)
        return self.trainer.evaluate(self.samples).loss


def state_of(net: FlatNet, model: FlatParameters) -> dict[str, Tensor]:
    net.load(*model)
    return net.copied_state()


def distance(a: Mapping[str, Tensor], b: Mapping[str, Tensor], names: Mapping[str, object]) -> float:
    return sum((a[name].double() - b[name].double()).square().sum().item() for name in names)
