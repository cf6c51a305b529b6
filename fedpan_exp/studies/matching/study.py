"""Do neurons keep their position? Optimal assignment between the global and a local model."""

from dataclasses import dataclass

from torch import Tensor

from fedpan_exp.alignment.kept_ratio import kept_ratio
from fedpan_exp.alignment.matching import match_weights
from fedpan_exp.models import POSITIONS
from fedpan_exp.probes.activation_probe import ActivationProbe
from fedpan_exp.probes.identity import state_of
from fedpan_exp.studies.shared.comparison import ModelComparison, Models
from fedpan_exp.studies.shared.setup import FederatedSetup
from fedpan_exp.system.atomic_io import write_json
from fedpan_exp.system.errors import ConfigError, require_choice
from fedpan_exp.system.rng import rng
from fedpan_exp.tracking.record import Record


@dataclass
class Matching(ModelComparison):
    name: str = "matching"
    by: str = "activations"
    positions: str = "all"  # of a feature map: all, or only the maximum

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("study.by", self.by, ("activations", "weights"))
        require_choice("study.positions", self.positions, POSITIONS)
        if self.by == "weights" and "head" in self.layers:
            raise ConfigError("study.layers must be hidden layers with study.by=weights, got head")

    def compare(
        self, models: Models, probe: ActivationProbe, setup: FederatedSetup, record: Record
    ) -> dict[str, float]:
        if self.by == "weights":
            permutations = match_by_weights(models, setup)
        else:
            permutations = probe.match(*(probe.activations(model, self.positions) for model in models))
        assignments = {layer: permutations[layer].tolist() for layer in probe.layers}
        write_json(record.folder / "matching.json", assignments)
        return {layer: kept_ratio(permutations[layer]) for layer in assignments}


def match_by_weights(models: Models, setup: FederatedSetup) -> dict[str, Tensor]:
    net = setup.trainer.net
    ours, theirs = (state_of(net, model) for model in models)
    return match_weights(ours, theirs, net.net.permutation_spec, rng(setup.clients.seed, "matching"))
