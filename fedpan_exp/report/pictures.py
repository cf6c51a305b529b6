"""Which pictures a run's own folder gets, by its study; each is drawn from the files in that folder."""

from collections.abc import Callable
from pathlib import Path

import yaml

from fedpan_exp.report import curves, encodings, kept_ratio, partition, shuffle_error

PICTURES: dict[str, list[Callable[[Path], object]]] = {
    "doctor": [encodings.draw],
    "federate": [curves.draw, partition.draw],
    "kept_ratio": [kept_ratio.draw],
    "partition": [partition.draw],
    "shuffle_error": [shuffle_error.draw],
}


def draw(folder: Path) -> None:
    study = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))["study"]["name"]
    for picture in PICTURES.get(study, []):
        picture(folder)
