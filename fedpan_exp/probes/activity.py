"""Probes of activations: do neurons keep their position and their preferred class?"""

from fedpan_exp.alignment.kept_ratio import kept_ratio
from fedpan_exp.alignment.preference import same_class_ratio
from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.federation import Snapshot
from fedpan_exp.probes.activation_probe import ActivationProbe
from fedpan_exp.training import LocalTrainer

SAMPLES = 500  # of the test set, as in the paper; all if there are fewer


class ActivityProbe:
    def __init__(self, trainer: LocalTrainer, clients: Clients, test: ImageTensors):
        self.probe = ActivationProbe(trainer, test, SAMPLES, clients.seed, list(trainer.net.net.activation_modules))


class MatchingProbe(ActivityProbe):
    """Fraction of neurons that match their own position in the mean model, by activations."""

    def measure(self, snapshot: Snapshot) -> list[dict[str, float]]:
        probe = self.probe
        mean = probe.activations(snapshot.mean, "all")
        matches = [probe.match(mean, probe.activations(local, "all")) for local in snapshot.local_models]
        return [{layer: kept_ratio(perm) for layer, perm in match.items()} for match in matches]


class PreferenceProbe(ActivityProbe):
    """Fraction of neurons that prefer the same class as in the mean model."""

    def measure(self, snapshot: Snapshot) -> list[dict[str, float]]:
        mean = self.probe.preferences(snapshot.mean)
        locals_ = [self.probe.preferences(local) for local in snapshot.local_models]
        return [{layer: same_class_ratio(mean[layer], local[layer]) for layer in mean} for local in locals_]
