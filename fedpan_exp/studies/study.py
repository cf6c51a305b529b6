"""The interface of studies: settings, validation and a run."""

from abc import ABC, abstractmethod
from typing import ClassVar

from fedpan_exp.config import Experiment
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record


class Study(ABC):
    irrelevant: ClassVar[tuple[str, ...]] = ()  # config groups that do not affect the result

    def check(self, experiment: Experiment) -> None:
        """Reject incompatible settings before anything is run; in a sweep, before the first job."""
        if "model" not in self.irrelevant:
            experiment.meta_network()  # fails if the network cannot be built

    def total_rounds(self, experiment: Experiment) -> int | None:
        """Return how many rounds or epochs a run records; None if its records are other measurements."""
        return None

    @abstractmethod
    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        """Run the study and write its results to the record."""
