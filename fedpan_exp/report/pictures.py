"""Which pictures a run's own folder gets, by its study; each is drawn from the files in that folder."""

from collections.abc import Callable
from pathlib import Path

import yaml

from fedpan_exp.report import curves, fusion, partition, shuffle_test

PICTURES: dict[str, list[Callable[[Path], object]]] = {
    "centralize": [curves.draw_epochs],
    "federate": [curves.draw, partition.draw],
    "fusion": [fusion.draw],
    "partition": [partition.draw],
    "shuffle_test": [shuffle_test.draw],
}


def draw(folder: Path) -> None:
    study = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))["study"]["name"]
    for picture in PICTURES.get(study, []):
        picture(folder)
