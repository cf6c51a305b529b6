"""Words for runs: the settings that tell them apart, and no others."""

from collections.abc import Sequence

from fedpan_exp.report.runs import Run, differing, show

FIRST = ("study.name", "dataset.name", "model.name", "algorithm.name", "fl_scene.alpha", "fl_scene.K", "fl_scene.E")


def distinguishing_keys(runs: Sequence[Run], *without: str) -> list[str]:
    """A few settings that tell runs apart as well as all do: what follows from the others is left out."""
    found = differing(runs, *without)
    ordered = [name for name in FIRST if name in found] + [name for name in found if name not in FIRST]
    kept: list[str] = []
    labels: list[tuple[str, ...]] = [() for _ in runs]
    for name in ordered:
        longer = [(*label, show(run.identity_config.get(name))) for label, run in zip(labels, runs, strict=True)]
        if len(set(longer)) > len(set(labels)):
            kept.append(name)
            labels = longer
    return kept


def describe(run: Run, names: Sequence[str]) -> str:
    """cifar10, fedavg, alpha=0.1"""
    words = []
    for name in names:
        value, last = run.identity_config.get(name), name.split(".")[-1]
        if value is not None:
            words.append(show(value) if last == "name" else f"{last}={show(value)}")
    return ", ".join(words)
