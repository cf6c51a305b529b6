"""Train on all the data at one place: what a federation could reach at best."""

import time
from dataclasses import dataclass

from fedpan_exp.experiment import Experiment
from fedpan_exp.stopping import Stop
from fedpan_exp.studies.central import Central, checkpoint_of, hold, make_site, train_network
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import Score, epochs_done

LAST = 5


@dataclass
class Centralize(Central):
    name: str = "centralize"

    def run(self, experiment: Experiment, record: Record, stop: Stop) -> None:
        site = make_site(experiment)
        hold(experiment, record)
        path = checkpoint_of(record)
        lines = (record.folder / "metrics.jsonl").read_bytes().splitlines(keepends=True) if path.exists() else []
        done = epochs_done(path)
        if len(lines) < done:  # records that belong to the checkpoint are missing
            path.unlink()
            done = 0
        tested = [line["global/test_acc"] for line in record.begin(keep=sum(map(len, lines[:done])))]
        began = time.perf_counter()

        def note(epoch: int, loss: float, score: Score) -> None:
            nonlocal began
            metrics = {"global/test_acc": score.accuracy, "global/test_loss": score.loss, "train/loss": loss}
            record.write(epoch, {**metrics, "time/round_s": time.perf_counter() - began})
            began = time.perf_counter()
            tested.append(score.accuracy)
            assert record.position  # on disk now: the checkpoint of this epoch counts on the line

        try:
            state = train_network(site, record, stop, note=note)
        finally:
            if tested:
                record.summarise(
                    {
                        "summary/last5_acc": sum(tested[-LAST:]) / len(tested[-LAST:]),
                        "summary/best_acc": max(tested),
                        "summary/final_acc": tested[-1],
                    }
                )
        record.save_weights(state)
