"""Measure at every point of a grid of settings, and write one record per point."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from fedpan_exp.system.console import progress_bar
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record

Point = Mapping[str, Any]  # settings by name


def measure_grid(
    points: Sequence[Point], measure: Callable[..., dict[str, float]], record: Record, stop: StopRequest
) -> list[dict[str, Any]]:
    """Call `measure` with the settings of each point; return the records: settings and results."""
    records = []
    with progress_bar("measure", len(points)) as progress:
        for number, point in enumerate(progress.track(stop.interruptible(points)), start=1):
            records.append({**point, **measure(**point)})
            record.write(number, records[-1])
            record.heartbeat()
            progress.describe("  ".join(f"{name} {_short(value)}" for name, value in records[-1].items()))
    return records


def mean_and_deviation(name: str, values: Sequence[float]) -> dict[str, float]:
    """The result of repeated measurements."""
    return {name: fmean(values), "deviation": stdev(values) if len(values) > 1 else 0.0}


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
