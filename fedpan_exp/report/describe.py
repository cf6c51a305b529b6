"""Short labels of runs: only the settings in which they differ."""

from collections.abc import Sequence

from fedpan_exp.report.runs import Run, differing, show

FIRST = ("study.name", "dataset.name", "model.name", "algorithm.name", "fl_scene.alpha", "fl_scene.K", "fl_scene.E")


def distinguishing_keys(runs: Sequence[Run], *without: str) -> list[str]:
    """A minimal list of settings that distinguishes the runs; settings implied by others are left out."""
    varying = differing(runs, *without)
    ordered = [name for name in FIRST if name in varying] + [name for name in varying if name not in FIRST]
    selected: list[str] = []
    labels: list[tuple[str, ...]] = [() for _ in runs]
    for name in ordered:
        longer = [(*label, show(run.identity_config.get(name))) for label, run in zip(labels, runs, strict=True)]
        if len(set(longer)) > len(set(labels)):
            selected.append(name)
            labels = longer
    return selected


def describe(run: Run, names: Sequence[str]) -> str:
    """A label such as: cifar10, fedavg, alpha=0.1"""
    parts = []
    for name in names:
        value, last = run.identity_config.get(name), name.split(".")[-1]
        if value is not None:
            parts.append(show(value) if last == "name" else f"{last}={show(value)}")
    return ", ".join(parts)
