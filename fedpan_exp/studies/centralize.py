"""Train on all the data at one place: what a federation could reach at best."""

import time
from dataclasses import dataclass

from fedpan_exp.config import Experiment
from fedpan_exp.studies.centralized import Central, checkpoint_of, hold, make_site, train_network
from fedpan_exp.studies.setup import accuracies
from fedpan_exp.system.console import warn
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import Begun, EvalResult, begun


@dataclass
class Centralize(Central):
    name: str = "centralize"

    def total_rounds(self, experiment: Experiment) -> int:
        return self.epochs

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        site = make_site(experiment)
        hold(experiment, record)
        path = checkpoint_of(record)
        earlier = begun(path)
        if earlier.records > record.metrics_bytes:
            warn(f"the checkpoint {path} is passed over: records that belong to it are missing")
            path.unlink()
            earlier = Begun()
        tested = [line["global/test_acc"] for line in record.start(keep_bytes=earlier.records)]
        began = time.perf_counter()

        def note(epoch: int, loss: float, score: EvalResult) -> None:
            nonlocal began
            metrics = {"global/test_acc": score.accuracy, "global/test_loss": score.loss, "train/loss": loss}
            record.write(epoch, {**metrics, "time/round_s": time.perf_counter() - began})
            began = time.perf_counter()
            tested.append(score.accuracy)

        try:
            state = train_network(site, record, stop, note=note)
        finally:
            record.write_summary(accuracies(tested))
        record.save_weights(state)
