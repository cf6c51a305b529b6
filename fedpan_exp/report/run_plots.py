"""The pictures in a run's own folder. Each plot reads the folder's files and returns None where it does not apply."""

from collections.abc import Callable
from pathlib import Path

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

RUN_PLOTS: tuple[Callable[[Path], Path | None], ...] = (
    curves.draw,
    divergence.draw,
    encodings.draw,
    fusion.draw,
    kept_ratio.draw,
    matching.draw,
    partition.draw,
    preference.draw,
    shuffle_error.draw,
    shuffle_test.draw,
)


def draw(folder: Path) -> None:
    for plot in RUN_PLOTS:
        plot(folder)
