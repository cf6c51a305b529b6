"""How is the data distributed over clients? Writes the split, and the label counts per client as a table and a plot."""

from dataclasses import dataclass

from fedpan_exp.config import Experiment
from fedpan_exp.data import FORMATS, write_split
from fedpan_exp.studies.shared.setup import load_and_split, write_partition, write_users
from fedpan_exp.studies.study import Study
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record


@dataclass
class Partition(Study):
    name: str = "partition"
    split: str = "fedpan_exp"  # format of the file with the split
    # These do not affect the split.
    irrelevant = ("model", "pan", "algorithm", "training", "eval_every", "probes", "probe_every")

    def __post_init__(self) -> None:
        require_choice("study.split", self.split, FORMATS)

    def check(self, experiment: Experiment) -> None:
        super().check(experiment)
        rule = f"0 for study.split={self.split}, whose indices refer to all training images"
        is_whole = experiment.fl_scene.reserve == 0 or self.split == "fedpan_exp"
        require(is_whole, "fl_scene.reserve", rule, experiment.fl_scene.reserve)

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        data, split, _ = load_and_split(experiment)
        record.start()
        write_users(record, data)
        counts = write_partition(record, data, split, experiment.dataset.classes)
        write_split(record.folder, data, split, experiment.seed, self.split)
        sizes = counts.sum(1).float()
        labels = (counts > 0).sum(1).float()
        record.write_summary(
            {
                "summary/clients": len(counts),
                "summary/samples_min": int(sizes.min()),
                "summary/samples_mean": float(sizes.mean()),
                "summary/samples_max": int(sizes.max()),
                "summary/labels_a_client": float(labels.mean()),
            }
        )
