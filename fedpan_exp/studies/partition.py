"""How is the data spread? Draws the label counts of every client and writes them as a table."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedpan_exp.experiment import Experiment
from fedpan_exp.studies.setup import load_and_split
from fedpan_exp.tracking.files import write_text
from fedpan_exp.tracking.record import Record


@dataclass
class Partition:
    name: str = "partition"
    irrelevant: ClassVar[tuple[str, ...]] = (
        "model",
        "pan",
        "algorithm",
        "training",
        "eval_every",
    )  # a split depends on none of them

    def run(self, experiment: Experiment, record: Record) -> None:
        data, split = load_and_split(experiment)
        classes = experiment.dataset.classes
        counts = torch.stack([data.train.y[part].bincount(minlength=classes) for part in split.parts])
        record.begin()
        header = ["client", "samples", *(f"label_{label}" for label in range(classes))]
        rows = [[k, sum(row), *row] for k, row in enumerate(counts.tolist())]
        lines = [",".join(map(str, row)) for row in [header, *rows]]
        write_text(record.folder / "partition.csv", "\n".join(lines) + "\n")

        sizes = counts.sum(1).float()
        labels = (counts > 0).sum(1).float()
        record.summarise(
            {
                "summary/clients": len(rows),
                "summary/samples_min": int(sizes.min()),
                "summary/samples_mean": float(sizes.mean()),
                "summary/samples_max": int(sizes.max()),
                "summary/labels_a_client": float(labels.mean()),
            }
        )
