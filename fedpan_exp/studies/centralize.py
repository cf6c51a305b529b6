"""Train on all the data at one place: what a federation could reach at best."""

import time
from dataclasses import dataclass

from fedpan_exp.config import Experiment
from fedpan_exp.studies.centralized import Central, checkpoint_of, hold, make_site, train_network
from fedpan_exp.studies.setup import accuracies
from fedpan_exp.system.console import warn
from fedpan_exp.system.signals import Stop
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import EvalResult, TrainingProgress, read_progress


@dataclass
class Centralize(Central):
    name: str = "centralize"

    def run(self, experiment: Experiment, record: Record, stop: Stop) -> None:
        site = make_site(experiment)
        hold(experiment, record)
        path = checkpoint_of(record)
        earlier = read_progress(path)
        if earlier.records > record.position:
            warn(f"the checkpoint {path} is passed over: records that belong to it are missing")
            path.unlink()
            earlier = TrainingProgress()
        tested = [line["global/test_acc"] for line in record.start(keep=earlier.records)]
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
            record.summarise(accuracies(tested))
        record.save_weights(state)
