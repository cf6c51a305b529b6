"""Which pictures a run's own folder gets, by its study; each is drawn from the files in that folder."""

from collections.abc import Callable
from pathlib import Path

import yaml

from fedpan_exp.report import (
    curves,
    divergence,
    encodings,
    fusion,
    kept_ratio,
    matching,
    partition,
    preference,
    shuffle_error,
    shuffle_test,
)

PICTURES: dict[str, list[Callable[[Path], object]]] = {
    "centralize": [curves.draw_epochs],
    "divergence": [divergence.draw, curves.draw, partition.draw],
    "doctor": [encodings.draw],
    "federate": [curves.draw, partition.draw, divergence.draw],
    "fusion": [fusion.draw],
    "kept_ratio": [kept_ratio.draw],
    "matching": [matching.draw, curves.draw, partition.draw],
    "partition": [partition.draw],
    "preference": [preference.draw, curves.draw, partition.draw],
    "shuffle_error": [shuffle_error.draw],
    "shuffle_federate": [curves.draw, partition.draw],
    "shuffle_test": [shuffle_test.draw],
}


def draw(folder: Path) -> None:
    study = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))["study"]["name"]
    for picture in PICTURES.get(study, []):
        picture(folder)
