"""One finished round."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fedpan_exp.algorithms import CohortUpdate, ServerState
from fedpan_exp.federation.snapshot import Snapshot
from fedpan_exp.training import EvalResult


@dataclass
class Round:
    index: int  # from 1
    server: ServerState  # live: the next round changes it
    cohort: list[int]
    update: CohortUpdate
    seconds: float
    snapshot: Snapshot | None  # for rounds selected by task.snapshot_at
    fusion_metrics: dict[str, float]  # of an algorithm that fuses the local models
    test: Callable[[], EvalResult] = field(repr=False)  # evaluates the server's weights on the global test set

    def metrics(self) -> dict[str, float]:
        return {**self.update.stats.metrics(), **self.fusion_metrics, "time/round_s": self.seconds}
