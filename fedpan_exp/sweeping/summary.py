"""The last thing a sweep says: what came out of each job, what failed, where it lies."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import yaml
from rich.table import Table

from fedpan_exp.sweeping.grids import choice
from fedpan_exp.sweeping.jobs import Job, Jobs
from fedpan_exp.sweeping.manifest import swept_settings
from fedpan_exp.system.atomic_io import read_json
from fedpan_exp.system.console import console

SHOWN = 40  # rows; more are better drawn


def conclude(jobs: Jobs, words: Sequence[str]) -> None:
    runs = jobs.distinct()
    if len(runs) < 2:
        return
    console.print()
    if len(runs) <= SHOWN:
        console.print(_table(runs))
    counts = Counter(job.record.status or "not begun" for job in runs)
    folder, sweep = runs[0].experiment.runs, choice(words, "sweeps")
    said = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    console.print(f"\nsweep  {said}, in {folder}", markup=False)
    drawn = f" --sweep {sweep}" if sweep else ""
    console.print(f"look at them: python -m fedpan_exp.report {folder}{drawn}", markup=False)


def conclude_search(words: Sequence[str]) -> None:
    """Of a sweeper that chose as it went: what it has found best."""
    path = Path(choice(words, "runs") or "runs") / ".multirun" / "optimization_results.yaml"
    if path.exists():
        result = yaml.safe_load(path.read_text(encoding="utf-8"))
        best = "  ".join(f"{name}={value}" for name, value in result.get("best_params", {}).items())
        console.print(f"\nbest: {result.get('best_value', float('nan')):.2%} with {best}", markup=False)


def _table(runs: Sequence[Job]) -> Table:
    settings = [dict(word.split("=", 1) for word in job.overrides if "=" in word) for job in runs]
    names = swept_settings([job.overrides for job in runs])
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in (*names, "last five", "status"):
        table.add_column(name.removeprefix("fl_scene."), justify="right" if name == "last five" else "left")
    for job, chosen in zip(runs, settings, strict=True):
        accuracy = read_json(job.record.folder / "summary.json").get("summary/last5_acc")
        shown = "" if accuracy is None else f"{accuracy:.2%}"
        table.add_row(*(chosen.get(name, "") for name in names), shown, job.record.status or "not begun")
    return table
