"""Centralized training on all data: an upper bound for federated learning."""

import time
from dataclasses import dataclass

from fedpan_exp.config import Experiment
from fedpan_exp.studies.shared.centralized import (
    CentralizedStudy,
    checkpoint_path,
    lock_run,
    set_up_centralized,
    train_network,
)
from fedpan_exp.studies.shared.setup import accuracies
from fedpan_exp.system.console import warn
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import EvalResult


@dataclass
class Centralize(CentralizedStudy):
    name: str = "centralize"

    def total_rounds(self, experiment: Experiment) -> int:
        return self.epochs

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        from fedpan_exp.training import TrainingProgress, read_progress

        setup = set_up_centralized(experiment)
        lock_run(experiment, record)
        path = checkpoint_path(record)
        earlier = read_progress(path)
        if earlier.records > record.metrics_bytes:
            warn(f"the checkpoint {path} is ignored: records that belong to it are missing")
            path.unlink()
            earlier = TrainingProgress()
        test_accs = [line["global/test_acc"] for line in record.start(keep_bytes=earlier.records)]
        started = time.perf_counter()

        def on_epoch(epoch: int, loss: float, result: EvalResult) -> None:
            nonlocal started
            metrics = {"global/test_acc": result.accuracy, "global/test_loss": result.loss, "train/loss": loss}
            record.write(epoch, {**metrics, "time/round_s": time.perf_counter() - started})
            started = time.perf_counter()
            test_accs.append(result.accuracy)

        try:
            state = train_network(setup, record, stop, on_epoch=on_epoch)
        finally:
            record.write_summary(accuracies(test_accs))
        record.save_weights(state)
