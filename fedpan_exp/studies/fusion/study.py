"""Can independently trained networks be averaged, with and without aligning their neurons?"""

from dataclasses import dataclass, field
from importlib.util import find_spec

import torch
from torch import Tensor

from fedpan_exp.alignment.fusion import average, interpolate, neuron_weights, sinkhorn, transport
from fedpan_exp.alignment.matching import assign, distances, match_weights
from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.pfnm import can_fuse, fuse_pfnm
from fedpan_exp.config import Experiment
from fedpan_exp.models import POSITIONS, activations
from fedpan_exp.studies.shared.centralized import (
    CentralizedSetup,
    CentralizedStudy,
    lock_run,
    set_up_centralized,
    train_network,
)
from fedpan_exp.studies.shared.grid import measure_grid
from fedpan_exp.system.console import print_status
from fedpan_exp.system.errors import require, require_choice, require_each
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record

State = dict[str, Tensor]


@dataclass
class Fusion(CentralizedStudy):
    """(1 - mu) A + mu B of two networks, each trained on half of the data: Avg, and OT+Avg with B aligned to A.

    Of more networks, B is the mean of all but the first. By PFNM, they are fused into one, without mu.
    """

    name: str = "fusion"
    parts: int = 2  # networks, each trained on one part of the data
    mu: list[float] = field(default_factory=list)
    by: str = "activations"  # how neurons are compared
    samples: int = 500  # training images for activations
    positions: str = "all"
    transport: str = "hard"
    epsilon: float = 0.02  # of entropic transport

    def __post_init__(self) -> None:
        super().__post_init__()
        require_each("study.mu", self.mu, "in [0, 1]", lambda mu: 0 <= mu <= 1)
        require(self.parts >= 2, "study.parts", "at least 2", self.parts)
        require_choice("study.by", self.by, ("activations", "weights", "pfnm"))
        require(self.samples >= 1, "study.samples", "at least 1", self.samples)
        require_choice("study.positions", self.positions, POSITIONS)
        require_choice("study.transport", self.transport, ("hard", "entropic"))
        has_pot = self.transport == "hard" or find_spec("ot") is not None
        require(has_pot, "study.transport", "hard without POT (pip install 'fedpan_exp[ot]')", self.transport)
        require(self.epsilon > 0, "study.epsilon", "above 0", self.epsilon)

    def check(self, experiment: Experiment) -> None:
        super().check(experiment)
        if self.by == "pfnm":
            require(self.transport == "hard", "study.transport", "hard for study.by=pfnm", self.transport)
            is_mlp = can_fuse(experiment.meta_network().permutation_spec)
            require(is_mlp, "model", "mlp with a hidden layer for study.by=pfnm", experiment.model.name)
            rule = "off for study.by=pfnm, which moves neurons to other positions"
            require(experiment.pans_off, "pan", rule, f"{experiment.pan.mode} with A={experiment.pan.A:g}")

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        setup = set_up_centralized(experiment, parts=self.parts)
        images = len(setup.clients.images)
        rule = f"at most {images:,}, the number of training images"
        require(self.samples <= images, "study.samples", rule, self.samples)
        lock_run(experiment, record)
        record.start()
        networks = [setup.on_device(train_network(setup, record, stop, k)) for k in range(self.parts)]
        if self.by == "pfnm":
            self._fuse_by_pfnm(setup, record, networks)
        else:
            self._interpolate(setup, record, stop, networks)

    def _interpolate(self, setup: CentralizedSetup, record: Record, stop: StopRequest, networks: list[State]) -> None:
        a, *others = networks
        b, aligned = average(others), average([self.align(setup, a, other) for other in others])

        def measure(mu: float) -> dict[str, float]:
            mean, matched = interpolate(a, b, mu), interpolate(a, aligned, mu)
            return {"avg_acc": setup.evaluate(mean).accuracy, "ot_acc": setup.evaluate(matched).accuracy}

        results = measure_grid([{"mu": mu} for mu in self.mu], measure, record, stop)
        middle = min(results, key=lambda result: abs(result["mu"] - 0.5))
        record.write_summary({"summary/avg_middle": middle["avg_acc"], "summary/ot_middle": middle["ot_acc"]})

    def _fuse_by_pfnm(self, setup: CentralizedSetup, record: Record, networks: list[State]) -> None:
        spec = setup.eval_network.permutation_spec
        labels = torch.stack([setup.clients.label_counts(k) for k in range(self.parts)])
        on_cpu = [{name: tensor.cpu() for name, tensor in state.items()} for state in networks]
        fused = fuse_pfnm(on_cpu, spec, labels, rng(setup.experiment.seed, "matching"))
        single = [setup.evaluate(state).accuracy for state in networks]
        accuracies = {
            "single_acc": sum(single) / len(single),  # the mean over the networks
            "avg_acc": setup.evaluate(average(networks)).accuracy,
            "pfnm_acc": setup.evaluate(fused).accuracy,
        }
        record.write(1, accuracies)
        record.write_summary({f"summary/{name}": accuracy for name, accuracy in accuracies.items()})
        print_status("fused", "  ".join(f"{name} {accuracy:.2%}" for name, accuracy in accuracies.items()))

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
