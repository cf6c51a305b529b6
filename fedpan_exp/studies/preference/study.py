"""Do neurons at the same position prefer the same class? Preference vectors of the global and a local model."""

from collections.abc import Mapping
from dataclasses import dataclass

from safetensors.torch import save_file
from torch import Tensor

from fedpan_exp.alignment.preference import layers_to_share, preference_spread, same_class_ratio
from fedpan_exp.probes.activation_probe import ActivationProbe
from fedpan_exp.studies.shared.comparison import ModelComparison, Models
from fedpan_exp.studies.shared.setup import FederatedSetup
from fedpan_exp.system.atomic_io import atomic_write
from fedpan_exp.system.console import print_status
from fedpan_exp.tracking.record import Record


@dataclass
class Preference(ModelComparison):
    name: str = "preference"

    def compare(
        self, models: Models, probe: ActivationProbe, setup: FederatedSetup, record: Record
    ) -> dict[str, float]:
        ours, theirs = (probe.preferences(model) for model in models)
        vectors = {f"global/{layer}": vector.cpu().contiguous() for layer, vector in ours.items()}
        vectors |= {f"local/{layer}": vector.cpu().contiguous() for layer, vector in theirs.items()}
        atomic_write(record.folder / "preference.safetensors", lambda path: save_file(vectors, path))
        if not self.layers and len(ours) > 1 and setup.trainer.net.net.is_sequential:
            recommend_depth(ours)
        return {layer: same_class_ratio(ours[layer], theirs[layer]) for layer in ours}


def recommend_depth(vectors: Mapping[str, Tensor]) -> None:
    """Print the depth at which Fed² would cut this network."""
    spreads = {layer: preference_spread(of_layer) for layer, of_layer in vectors.items()}
    shared = layers_to_share(spreads)
    listed = " ".join(f"{layer} {spread:.2f}" for layer, spread in spreads.items())
    rises = f"which rises most after {shared[-1]}: model.shared_layers={len(shared)} for algorithm=fed2"
    print_status("spread", f"of class preferences: {listed}, {rises}")
