"""What every study is: settings, what it refuses, and a run that answers its question."""

from abc import ABC, abstractmethod
from typing import ClassVar

from fedpan_exp.config import Experiment
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record


class Study(ABC):
    irrelevant: ClassVar[tuple[str, ...]] = ()  # groups that cannot change what comes out

    def check(self, experiment: Experiment) -> None:
        """Refuse what does not go together, before anything is run: in a sweep, before its first job."""
        if "model" not in self.irrelevant:
            experiment.meta_network()  # refuses a network that cannot be built

    def total_rounds(self, experiment: Experiment) -> int | None:
        """Return how many rounds or epochs a run records; None if its records are other measurements."""
        return None

    @abstractmethod
    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        """Answer the question, into the record."""
