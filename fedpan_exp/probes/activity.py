"""Probes of what neurons do: are they at the same places, and do they work for the same classes?"""

from fedpan_exp.alignment.kept_ratio import kept_ratio
from fedpan_exp.alignment.preference import same_class_ratio
from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.federation import Snapshot
from fedpan_exp.probes.activation_probe import ActivationProbe
from fedpan_exp.training import LocalTrainer

SAMPLES = 500  # of the test set, as in the paper; all of a smaller one


class ActivityProbe:
    def __init__(self, trainer: LocalTrainer, clients: Clients, test: ImageTensors):
        self.probe = ActivationProbe(trainer, test, SAMPLES, clients.seed, list(trainer.net.net.activation_modules))


class MatchingProbe(ActivityProbe):
    """The share of neurons whose optimal assignment in the mean model, by activations, is their own place."""

    def measure(self, kept: Snapshot) -> list[dict[str, float]]:
        look = self.probe
        mean = look.activations(kept.mean, "all")
        permutations = [look.match(mean, look.activations(local, "all")) for local in kept.locals]
        return [{layer: kept_ratio(permutation) for layer, permutation in each.items()} for each in permutations]


class PreferenceProbe(ActivityProbe):
    """The share of neurons that work for the same class as in the mean model."""

    def measure(self, kept: Snapshot) -> list[dict[str, float]]:
        mean = self.probe.preferences(kept.mean)
        vectors = [self.probe.preferences(local) for local in kept.locals]
        return [{layer: same_class_ratio(mean[layer], each[layer]) for layer in mean} for each in vectors]
