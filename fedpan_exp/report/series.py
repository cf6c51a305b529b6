"""Data that the page draws by itself: thinned curves, partitions, the settings that vary."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from fedpan_exp.report.describe import distinguishing_keys
from fedpan_exp.report.runs import VALUE, Run, show

METRICS = ("global/test_acc", "global/test_loss", "train/loss", "clients/divergence", "local/post_acc")
POINTS = 75_000  # of all curves together, to limit the size of the page
CLIENTS = 100  # of a partition; more would not be legible


def for_page(runs: Sequence[Run], out: Path) -> dict[str, Any]:
    points = int(np.clip(POINTS / len(runs), 60, 400))
    names = distinguishing_keys(runs, "seed", "pan")
    settings = [*names, "pan.mode", "pan.A", "pan.T", "seed"]
    varying = [name for name in settings if len({show(run.setting(name)) for run in runs}) > 1]
    groups: dict[str, int] = {}
    partitions: dict[str, int] = {}
    shown = [_run(run, out, varying, points, groups, partitions) for run in runs]
    return {
        "runs": shown,
        "varying": varying,
        "points": points,
        "thinned": any(len(run.columns.get("round", ())) > points for run in runs),
        "partitions": [[[int(n) for n in row.split(",")] for row in text.split("\n")] for text in partitions],
        "clients": CLIENTS,
    }


def _run(
    run: Run,
    out: Path,
    varying: list[str],
    points: int,
    groups: dict[str, int],
    partitions: dict[str, int],
) -> dict[str, Any]:
    folder = quote(os.path.relpath(run.entry.folder.resolve(), out.resolve()))
    value, best = run.number(VALUE), run.number("summary/best_acc")
    text, clients = partition_of(run)
    return {
        "name": run.name,
        "study": show(run.setting("study", "?")),
        "dataset": show(run.setting("dataset", "?")),
        "algorithm": show(run.setting("algorithm", "?")),
        "pan": run.pan,
        "seed": run.seed,
        "status": run.status,
        "complete": run.complete,
        "trouble": run.trouble,
        "versions": run.versions,
        "last5": None if value is None else round(value, 6),
        "best": None if best is None else round(best, 6),
        "rounds": run.entry.rounds,
        "settings": [_show(run, name) for name in varying],
        "group": groups.setdefault(run.key("seed"), len(groups)),
        "base": groups.setdefault(run.key("seed", "pan") + "/pan", len(groups)),
        "links": {name: f"./{folder}/{name}" for name in ("config.yaml", "metrics.jsonl")},
        "curve": curve_of(run, points),
        "partition": partitions.setdefault(text, len(partitions)) if text else None,
        "clients": clients,
    }


def curve_of(run: Run, points: int) -> dict[str, list[float | None]] | None:
    """Rounds evenly selected among the tested ones, with the first and the last; nothing is averaged."""
    metrics = [name for name in METRICS if run.floats(name) is not None]
    if not metrics:
        return None
    tested = np.flatnonzero(np.isfinite(run.columns[metrics[0]]))
    if not len(tested):
        return None
    selected = tested[np.unique(np.linspace(0, len(tested) - 1, min(points, len(tested))).astype(int))]
    axes = {
        "round": run.columns["round"],
        "samples": _total(run, "train/samples"),
        "bytes": _total(run, "comm/up_bytes", "comm/down_bytes"),
        "seconds": _total(run, "time/round_s"),
    }
    columns = axes | {name: run.columns[name] for name in metrics}
    return {name: [_short(value) for value in column[selected]] for name, column in columns.items()}


def partition_of(run: Run) -> tuple[str, int]:
    """Samples per label, one line per client, as text to deduplicate equal partitions; and the number of clients."""
    try:
        with (run.entry.folder / "partition.csv").open(encoding="utf-8") as file:
            rows = [[int(cell) for cell in row[2:]] for row in list(csv.reader(file))[1:]]
    except (OSError, ValueError):
        return "", 0
    return "\n".join(",".join(map(str, row)) for row in rows[:CLIENTS] if row), len(rows)


def _show(run: Run, name: str) -> str:
    value = run.setting(name)
    return "–" if value is None else show(value)


def _total(run: Run, *names: str) -> np.ndarray:
    """Cumulative sum of these columns over rounds."""
    columns = [column for name in names if (column := run.floats(name)) is not None]
    if not columns:
        return np.full(len(run.columns["round"]), np.nan)
    return np.cumsum(np.nan_to_num(np.sum(columns, axis=0)))


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if np.isfinite(value) else None
