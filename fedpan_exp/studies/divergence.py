"""How far do clients drift apart, layer by layer? A federated run whose last round is probed."""

from dataclasses import dataclass

from fedpan_exp.checks import require
from fedpan_exp.experiment import Experiment
from fedpan_exp.stopping import Stop
from fedpan_exp.studies.federate import Federate
from fedpan_exp.tracking.record import Record


@dataclass
class Divergence(Federate):
    """Its YAML switches the probes on; otherwise it is federate, with bars."""

    name: str = "divergence"

    def run(self, experiment: Experiment, record: Record, stop: Stop) -> None:
        rule = "such that divergence is among them, with study=divergence"
        require("divergence" in experiment.probes, "probes", rule, experiment.probes)
        super().run(experiment, record, stop)
