"""How far do clients drift apart, layer by layer? A federated run whose last round is probed."""

from dataclasses import dataclass

from fedpan_exp.config import Experiment
from fedpan_exp.studies.federate import Federate
from fedpan_exp.system.errors import require


@dataclass
class Divergence(Federate):
    """Its YAML switches the probes on; otherwise it is federate, with bars."""

    name: str = "divergence"

    def check(self, experiment: Experiment) -> None:
        super().check(experiment)
        rule = "such that divergence is among them, with study=divergence"
        require("divergence" in experiment.probes, "probes", rule, experiment.probes)
