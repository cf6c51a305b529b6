"""Can two networks that were trained apart be averaged? As they are, and with their neurons aligned."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedpan_exp.alignment.fusion import interpolate, sinkhorn, transport, weights_of_neurons
from fedpan_exp.alignment.matching import assign, distances, match_weights
from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.config import Experiment
from fedpan_exp.models import POSITIONS, activations
from fedpan_exp.studies.centralized import Central, Site, hold, make_site, train_network
from fedpan_exp.system.console import progress_bar
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record

State = dict[str, Tensor]


@dataclass
class Fusion(Central):
    """(1 - mu) A + mu B, of two networks trained on a half of the data each: Avg, and OT+Avg with B aligned to A."""

    name: str = "fusion"
    mu: list[float] = field(default_factory=list)
    by: str = "activations"  # what neurons are aligned by
    samples: int = 500  # training images that neurons are compared on
    positions: str = "all"
    transport: str = "hard"
    epsilon: float = 0.02  # of entropic transport

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range = bool(self.mu) and all(0 <= mu <= 1 for mu in self.mu)
        require(in_range, "study.mu", "values in [0, 1]", self.mu)
        require_choice("study.by", self.by, ("activations", "weights"))
        require(self.samples >= 1, "study.samples", "at least 1", self.samples)
        require_choice("study.positions", self.positions, POSITIONS)
        require_choice("study.transport", self.transport, ("hard", "entropic"))
        require(self.epsilon > 0, "study.epsilon", "above 0", self.epsilon)

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        site = make_site(experiment, parts=2)
        images = len(site.clients.images)
        require(self.samples <= images, "study.samples", f"at most {images:,}, as many as there are", self.samples)
        hold(experiment, record)
        record.start()
        a, b = (train_network(site, record, stop, k) for k in (0, 1))
        device = site.judge.fabric.device
        a, b = ({name: tensor.to(device) for name, tensor in state.items()} for state in (a, b))
        aligned = self.align(site, a, b)
        found = {}
        with progress_bar("fuse", len(self.mu)) as progress:
            for number, mu in enumerate(progress.track(stop.interruptible(self.mu)), start=1):
                accuracies = {
                    "avg_acc": site.score(interpolate(a, b, mu)).accuracy,
                    "ot_acc": site.score(interpolate(a, aligned, mu)).accuracy,
                }
                record.write(number, {"mu": mu, **accuracies})
                found[mu] = accuracies
                progress.describe(f"mu {mu:g}  Avg {accuracies['avg_acc']:.2%}  OT+Avg {accuracies['ot_acc']:.2%}")
        middle = found[min(found, key=lambda mu: abs(mu - 0.5))]
        record.write_summary({"summary/avg_middle": middle["avg_acc"], "summary/ot_middle": middle["ot_acc"]})

    def align(self, site: Site, a: State, b: State) -> State:
        """b with its neurons where a has theirs."""
        spec, seed = site.twin.permutation_spec, site.experiment.seed
        costs: dict[str, Tensor] = {}  # between a's neurons and those that b will have in their places
        if self.by == "weights":
            orders = match_weights(a, b, spec, rng(seed, "matching"))
            matched = permute(b, spec, orders)
            for group in spec.sizes:
                costs[group] = distances(*(weights_of_neurons(state, spec, group) for state in (a, matched)))
        else:
            images, orders = site.clients.images, {}
            drawn = torch.randperm(len(images), generator=rng(seed, "aligned on"))[: self.samples]
            x = site.judge.transform.normalize(images.x[drawn.to(images.x.device)])
            for group in spec.sizes:  # one at a time: the maps of all layers together may be too large
                apart = distances(*(self._activations(site, state, x, group) for state in (a, b)))
                orders[group] = assign(-apart, spec.sections[group])
                costs[group] = apart[:, orders[group].to(apart.device)]
            matched = permute(b, spec, orders)
        if self.transport == "hard":
            return matched
        plans = {group: sinkhorn(cost, self.epsilon, spec.sections[group]) for group, cost in costs.items()}
        return transport(matched, spec, plans)

    def _activations(self, site: Site, state: State, x: Tensor, group: str) -> Tensor:
        site.twin.load_state_dict(state)
        return activations(site.twin, x, [group], self.positions)[group]
