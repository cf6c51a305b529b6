"""Train on all the data at one place: what a federation could reach at best."""

import time
from dataclasses import dataclass

from fedpan_exp.config import Experiment
from fedpan_exp.studies.centralized import CentralizedStudy, checkpoint_path, hold, set_up_centralized, train_network
from fedpan_exp.studies.setup import accuracies
from fedpan_exp.system.console import warn
from fedpan_exp.system.signals import Stop
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import Begun, EvalResult, begun


@dataclass
class Centralize(CentralizedStudy):
    name: str = "centralize"

    def run(self, experiment: Experiment, record: Record, stop: Stop) -> None:
        site = set_up_centralized(experiment)
        hold(experiment, record)
        path = checkpoint_path(record)
        earlier = begun(path)
        if earlier.records > record.position:
            warn(f"the checkpoint {path} is passed over: records that belong to it are missing")
            path.unlink()
            earlier = Begun()
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
