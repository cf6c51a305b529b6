"""A study: how large the initial weights of each layer are.

python -m fedpan_exp plugins=[example.py] study=example
"""

from dataclasses import dataclass
from typing import ClassVar

from fedpan_exp.config import Experiment
from fedpan_exp.studies.study import Study
from fedpan_exp.system.errors import require
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record


@dataclass
class Example(Study):
    """Norms of the initial weights."""

    name: str = "example"
    order: float = 2.0
    irrelevant: ClassVar[tuple[str, ...]] = ("algorithm", "fl_scene", "training")  # groups that change no result

    def __post_init__(self) -> None:
        require(self.order > 0, "study.order", "above 0", self.order)

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        record.start()
        norms = {name: tensor.norm(self.order).item() for name, tensor in experiment.network().named_parameters()}
        record.write(1, norms)  # a line of metrics.jsonl
        record.write_summary({f"summary/{name}": norm for name, norm in norms.items()})


STUDIES = {"example": Example}
