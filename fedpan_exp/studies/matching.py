"""Are neurons at the same coordinates still the same neurons? Optimal assignment, global against local model."""

from dataclasses import dataclass

from torch import Tensor

from fedpan_exp.alignment.kept_ratio import share_in_place
from fedpan_exp.alignment.matching import match_weights
from fedpan_exp.models import POSITIONS
from fedpan_exp.probes.activation_probe import Microscope
from fedpan_exp.studies.comparison import Comparison
from fedpan_exp.studies.setup import World
from fedpan_exp.system.atomic_io import write_json
from fedpan_exp.system.errors import ConfigError, require_choice
from fedpan_exp.system.rng import stream
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import Vectors


@dataclass
class Matching(Comparison):
    name: str = "matching"
    by: str = "activations"
    positions: str = "all"  # of a channel's map: all of them, or the maximum

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("study.by", self.by, ("activations", "weights"))
        require_choice("study.positions", self.positions, POSITIONS)
        if self.by == "weights" and "head" in self.layers:
            raise ConfigError("study.layers must be hidden layers with study.by=weights, got head")

    def compare(
        self, globally: Vectors, locally: Vectors, microscope: Microscope, world: World, record: Record
    ) -> dict[str, float]:
        if self.by == "weights":
            orders = match_by_weights(globally, locally, world)
        else:
            ours, theirs = (microscope.activations(model, self.positions) for model in (globally, locally))
            orders = microscope.match(ours, theirs)
        wanted = {layer: orders[layer].tolist() for layer in microscope.layers}
        write_json(record.folder / "matching.json", wanted)
        return {layer: share_in_place(orders[layer]) for layer in wanted}


def match_by_weights(globally: Vectors, locally: Vectors, world: World) -> dict[str, Tensor]:
    net = world.trainer.net

    def state_of(model: Vectors) -> dict[str, Tensor]:
        net.load(*model)
        return {name: tensor.clone() for name, tensor in net.net.state_dict().items()}

    generator = stream(world.clients.seed, "matching")
    return match_weights(state_of(globally), state_of(locally), net.net.layout, generator)
