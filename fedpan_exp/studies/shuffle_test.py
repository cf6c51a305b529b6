"""What does a trained network lose when its neurons change places?"""

from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from torch import Tensor

from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.shuffle import shuffled_orders
from fedpan_exp.alignment.shuffle_error import shuffle_error
from fedpan_exp.config import Experiment
from fedpan_exp.studies.centralized import Central, hold, make_site, train_network
from fedpan_exp.studies.repeats import summed_up
from fedpan_exp.studies.weights import weights_of
from fedpan_exp.system.console import print_status, progress_bar
from fedpan_exp.system.errors import require
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record


@dataclass
class ShuffleTest(Central):
    """Accuracy and shuffle error on the test set against P_sf."""

    name: str = "shuffle_test"
    weights: str | None = None  # a run's folder; null: train here
    P_sf: list[float] = field(default_factory=list)
    repeats: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range = bool(self.P_sf) and all(0 <= P_sf <= 1 for P_sf in self.P_sf)
        require(in_range, "study.P_sf", "values in [0, 1]", self.P_sf)
        require(self.repeats >= 1, "study.repeats", "at least 1", self.repeats)

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        site = make_site(experiment)
        spec = site.twin.permutation_spec
        given = weights_of(Path(self.weights), record, site.twin) if self.weights else None
        hold(experiment, record)
        record.start()
        state = given or train_network(site, record, stop)
        record.save_weights(state)
        device = site.judge.fabric.device
        state = {name: tensor.to(device) for name, tensor in state.items()}
        outputs = site.logits(state)
        right = _accuracy(outputs, site.test.y)
        print_status("trained", f"test accuracy {right:.2%} before its neurons are shuffled")
        record.write_summary({"summary/test_acc": right})
        with progress_bar("shuffle", len(self.P_sf) * self.repeats) as progress:
            for number, P_sf in enumerate(self.P_sf, start=1):
                accuracies, errors = [], []
                for repeat in progress.track(stop.interruptible(range(self.repeats))):
                    orders = shuffled_orders(spec, P_sf, rng(experiment.seed, "shuffle", repeat))
                    shuffled = site.logits(permute(state, spec, orders))
                    accuracies.append(_accuracy(shuffled, site.test.y))
                    errors.append(shuffle_error(shuffled, outputs))
                    record.heartbeat()
                found = {**summed_up("test_acc", accuracies), "error": fmean(errors)}
                record.write(number, {"P_sf": P_sf, **found})
                progress.describe(f"P_sf {P_sf:g}  accuracy {found['test_acc']:.2%}  error {found['error']:.4g}")


def _accuracy(logits: Tensor, y: Tensor) -> float:
    return (logits.argmax(1) == y).sum().item() / len(y)
