"""How much accuracy does a trained network lose when its neurons are shuffled?"""

from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from torch import Tensor

from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.shuffle import sample_permutations
from fedpan_exp.alignment.shuffle_error import shuffle_error
from fedpan_exp.config import Experiment
from fedpan_exp.studies.shared.centralized import CentralizedStudy, lock_run, set_up_centralized, train_network
from fedpan_exp.studies.shared.grid import mean_and_deviation, measure_grid
from fedpan_exp.studies.shared.weights import load_run_weights
from fedpan_exp.system.console import print_status
from fedpan_exp.system.errors import require, require_each
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record


@dataclass
class ShuffleTest(CentralizedStudy):
    """Accuracy and shuffle error on the test set over P_sf."""

    name: str = "shuffle_test"
    weights: str | None = None  # run folder to load from; null: train a network
    P_sf: list[float] = field(default_factory=list)
    repeats: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        require_each("study.P_sf", self.P_sf, "in [0, 1]", lambda P_sf: 0 <= P_sf <= 1)
        require(self.repeats >= 1, "study.repeats", "at least 1", self.repeats)

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        setup = set_up_centralized(experiment)
        spec = setup.eval_network.permutation_spec
        loaded = load_run_weights(Path(self.weights), record, setup.eval_network) if self.weights else None
        lock_run(experiment, record)
        record.start()
        state = loaded or train_network(setup, record, stop)
        record.save_weights(state)
        state = setup.on_device(state)
        outputs = setup.logits(state)
        accuracy = _accuracy(outputs, setup.test.y)
        print_status("trained", f"test accuracy {accuracy:.2%} before shuffling")
        record.write_summary({"summary/test_acc": accuracy})

        def measure(P_sf: float) -> dict[str, float]:
            accuracies, errors = [], []
            for repeat in stop.interruptible(range(self.repeats)):
                permutations = sample_permutations(spec, P_sf, rng(experiment.seed, "shuffle", repeat))
                shuffled = setup.logits(permute(state, spec, permutations))
                accuracies.append(_accuracy(shuffled, setup.test.y))
                errors.append(shuffle_error(shuffled, outputs))
                record.heartbeat()
            return {**mean_and_deviation("test_acc", accuracies), "error": fmean(errors)}

        measure_grid([{"P_sf": P_sf} for P_sf in self.P_sf], measure, record, stop)


def _accuracy(logits: Tensor, y: Tensor) -> float:
    return (logits.argmax(1) == y).sum().item() / len(y)
