"""Do neurons at the same coordinates work for the same classes? Preference vectors, global against local model."""

from dataclasses import dataclass

from safetensors.torch import save_file

from fedpan_exp.alignment.preference import share_of_same_class
from fedpan_exp.probes.activation_probe import Microscope
from fedpan_exp.studies.comparison import Comparison
from fedpan_exp.studies.setup import World
from fedpan_exp.system.atomic_io import write_whole
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import Vectors


@dataclass
class Preference(Comparison):
    name: str = "preference"

    def compare(
        self, globally: Vectors, locally: Vectors, microscope: Microscope, world: World, record: Record
    ) -> dict[str, float]:
        ours, theirs = microscope.preferences(globally), microscope.preferences(locally)
        vectors = {f"global/{layer}": vector.cpu().contiguous() for layer, vector in ours.items()}
        vectors |= {f"local/{layer}": vector.cpu().contiguous() for layer, vector in theirs.items()}
        write_whole(record.folder / "preference.safetensors", lambda path: save_file(vectors, path))
        return {layer: share_of_same_class(ours[layer], theirs[layer]) for layer in ours}
