"""Short labels of runs: only the settings in which they differ."""

from collections.abc import Sequence

import pandas as pd

from fedpan_exp.report.frame import differing, show

FIRST = ("study.name", "dataset.name", "model.name", "algorithm.name", "fl_scene.alpha", "fl_scene.K", "fl_scene.E")


def distinguishing_keys(runs: pd.DataFrame, *without: str) -> list[str]:
    """A minimal list of settings that distinguishes the runs; settings implied by others are left out."""
    varying = differing(runs, *without)
    selected: list[str] = []
    labels: list[tuple[str, ...]] = [() for _ in runs.index]
    for name in sorted(varying, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)):
        values = [show(identity.get(name)) for identity in runs["identity"]]
        longer = [(*label, value) for label, value in zip(labels, values, strict=True)]
        if len(set(longer)) > len(set(labels)):
            selected, labels = [*selected, name], longer
    return selected


def describe(run: pd.Series, names: Sequence[str]) -> str:
    """A label such as: cifar10, fedavg, alpha=0.1"""
    values = {name: value for name in names if (value := run["identity"].get(name)) is not None}
    last = {name: name.split(".")[-1] for name in values}
    return ", ".join(show(v) if last[name] == "name" else f"{last[name]}={show(v)}" for name, v in values.items())
