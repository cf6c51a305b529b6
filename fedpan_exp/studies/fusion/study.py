"""Can two independently trained networks be averaged, with and without aligning their neurons?"""

from dataclasses import dataclass, field
from importlib.util import find_spec

import torch
from torch import Tensor

from fedpan_exp.alignment.fusion import interpolate, neuron_weights, sinkhorn, transport
from fedpan_exp.alignment.matching import assign, distances, match_weights
from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.config import Experiment
from fedpan_exp.models import POSITIONS, activations
from fedpan_exp.studies.shared.centralized import (
    CentralizedSetup,
    CentralizedStudy,
    lock_run,
    set_up_centralized,
    train_network,
)
from fedpan_exp.system.console import progress_bar
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record

State = dict[str, Tensor]


@dataclass
class Fusion(CentralizedStudy):
    """(1 - mu) A + mu B of two networks, each trained on half of the data: Avg, and OT+Avg with B aligned to A."""

    name: str = "fusion"
    mu: list[float] = field(default_factory=list)
    by: str = "activations"  # how neurons are compared
    samples: int = 500  # training images for activations
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
        has_pot = self.transport == "hard" or find_spec("ot") is not None
        require(has_pot, "study.transport", "hard without POT (pip install 'fedpan_exp[ot]')", self.transport)
        require(self.epsilon > 0, "study.epsilon", "above 0", self.epsilon)

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        setup = set_up_centralized(experiment, parts=2)
        images = len(setup.clients.images)
        rule = f"at most {images:,}, the number of training images"
        require(self.samples <= images, "study.samples", rule, self.samples)
        lock_run(experiment, record)
        record.start()
        a, b = (train_network(setup, record, stop, k) for k in (0, 1))
        device = setup.evaluator.fabric.device
        a, b = ({name: tensor.to(device) for name, tensor in state.items()} for state in (a, b))
        aligned = self.align(setup, a, b)
        results = {}
        with progress_bar("fuse", len(self.mu)) as progress:
            for number, mu in enumerate(progress.track(stop.interruptible(self.mu)), start=1):
                accuracies = {
                    "avg_acc": setup.evaluate(interpolate(a, b, mu)).accuracy,
                    "ot_acc": setup.evaluate(interpolate(a, aligned, mu)).accuracy,
                }
                record.write(number, {"mu": mu, **accuracies})
                results[mu] = accuracies
                progress.describe(f"mu {mu:g}  Avg {accuracies['avg_acc']:.2%}  OT+Avg {accuracies['ot_acc']:.2%}")
        middle = results[min(results, key=lambda mu: abs(mu - 0.5))]
        record.write_summary({"summary/avg_middle": middle["avg_acc"], "summary/ot_middle": middle["ot_acc"]})

    def align(self, setup: CentralizedSetup, a: State, b: State) -> State:
        """b with its neurons aligned to a's."""
        spec, seed = setup.eval_network.permutation_spec, setup.experiment.seed
        costs: dict[str, Tensor] = {}  # per group: [neurons of a, matched neurons of b]
        if self.by == "weights":
            permutations = match_weights(a, b, spec, rng(seed, "matching"))
            matched = permute(b, spec, permutations)
            for group in spec.sizes:
                costs[group] = distances(*(neuron_weights(state, spec, group) for state in (a, matched)))
        else:
            images, permutations = setup.clients.images, {}
            drawn = torch.randperm(len(images), generator=rng(seed, "aligned on"))[: self.samples]
            x = setup.evaluator.transform.normalize(images.x[drawn.to(images.x.device)])
            for group in spec.sizes:  # one at a time: the feature maps of all layers may not fit into memory
                pairwise = distances(*(self._activations(setup, state, x, group) for state in (a, b)))
                permutations[group] = assign(-pairwise, spec.sections[group])
                costs[group] = pairwise[:, permutations[group].to(pairwise.device)]
            matched = permute(b, spec, permutations)
        if self.transport == "hard":
            return matched
        plans = {group: sinkhorn(cost, self.epsilon, spec.sections[group]) for group, cost in costs.items()}
        return transport(matched, spec, plans)

    def _activations(self, setup: CentralizedSetup, state: State, x: Tensor, group: str) -> Tensor:
        setup.eval_network.load_state_dict(state)
        return activations(setup.eval_network, x, [group], self.positions)[group]
