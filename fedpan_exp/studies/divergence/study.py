"""How far do clients drift apart, per layer? A federated run with probes in its last round."""

from dataclasses import dataclass

from fedpan_exp.config import Experiment
from fedpan_exp.studies.federate.study import Federate
from fedpan_exp.system.errors import require


@dataclass
class Divergence(Federate):
    """Federated training with probes (set in its YAML) and a bar chart."""

    name: str = "divergence"

    def check(self, experiment: Experiment) -> None:
        super().check(experiment)
        rule = "a list with divergence for study=divergence"
        require("divergence" in experiment.probes, "probes", rule, experiment.probes)
