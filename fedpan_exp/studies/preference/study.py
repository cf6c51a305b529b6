"""Do neurons at the same position prefer the same class? Preference vectors of the global and a local model."""

from dataclasses import dataclass

from safetensors.torch import save_file

from fedpan_exp.alignment.preference import same_class_ratio
from fedpan_exp.probes.activation_probe import ActivationProbe
from fedpan_exp.studies.shared.comparison import Comparison, Models
from fedpan_exp.studies.shared.setup import FederatedSetup
from fedpan_exp.system.atomic_io import atomic_write
from fedpan_exp.tracking.record import Record


@dataclass
class Preference(Comparison):
    name: str = "preference"

    def compare(
        self, models: Models, probe: ActivationProbe, setup: FederatedSetup, record: Record
    ) -> dict[str, float]:
        ours, theirs = (probe.preferences(model) for model in models)
        vectors = {f"global/{layer}": vector.cpu().contiguous() for layer, vector in ours.items()}
        vectors |= {f"local/{layer}": vector.cpu().contiguous() for layer, vector in theirs.items()}
        atomic_write(record.folder / "preference.safetensors", lambda path: save_file(vectors, path))
        return {layer: same_class_ratio(ours[layer], theirs[layer]) for layer in ours}
