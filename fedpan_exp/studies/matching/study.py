"""Do neurons keep their position? Optimal assignment between the global and a local model."""

from dataclasses import dataclass

from torch import Tensor

from fedpan_exp.alignment.kept_ratio import kept_ratio
from fedpan_exp.alignment.matching import match_weights
from fedpan_exp.models import POSITIONS
from fedpan_exp.probes.activation_probe import ActivationProbe
from fedpan_exp.studies.shared.comparison import Comparison
from fedpan_exp.studies.shared.setup import FederatedSetup
from fedpan_exp.system.atomic_io import write_json
from fedpan_exp.system.errors import ConfigError, require_choice
from fedpan_exp.system.rng import rng
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import FlatParameters


@dataclass
class Matching(Comparison):
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
        self,
        global_model: FlatParameters,
        local_model: FlatParameters,
        probe: ActivationProbe,
        setup: FederatedSetup,
        record: Record,
    ) -> dict[str, float]:
        if self.by == "weights":
            permutations = match_by_weights(global_model, local_model, setup)
        else:
            ours, theirs = (probe.activations(model, self.positions) for model in (global_model, local_model))
            permutations = probe.match(ours, theirs)
        assignments = {layer: permutations[layer].tolist() for layer in probe.layers}
        write_json(record.folder / "matching.json", assignments)
        return {layer: kept_ratio(permutations[layer]) for layer in assignments}


def match_by_weights(
    global_model: FlatParameters, local_model: FlatParameters, setup: FederatedSetup
) -> dict[str, Tensor]:
    net = setup.trainer.net

    def state_of(model: FlatParameters) -> dict[str, Tensor]:
        net.load(*model)
        return {name: tensor.clone() for name, tensor in net.net.state_dict().items()}

    generator = rng(setup.clients.seed, "matching")
    return match_weights(state_of(global_model), state_of(local_model), net.net.permutation_spec, generator)
