"""Output at the end of a sweep: the result of each run, what failed, where the folders are."""

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

MAX_ROWS = 40


def print_summary(jobs: Jobs, args: Sequence[str]) -> None:
    runs = jobs.distinct()
    if len(runs) < 2:
        return
    console.print()
    if len(runs) <= MAX_ROWS:
        console.print(_table(runs))
    counts = Counter(job.record.status or "not started" for job in runs)
    folder, sweep = runs[0].experiment.runs, choice(args, "sweeps")
    text = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    console.print(f"\nsweep  {text}, in {folder}", markup=False)
    option = f" --sweep {sweep}" if sweep else ""
    console.print(f"to see figures and tables: python -m fedpan_exp.report {folder}{option}", markup=False)


def print_search_result(args: Sequence[str]) -> None:
    """Print the best result of a sweeper that chose its jobs one by one."""
    path = Path(choice(args, "runs") or "runs") / ".multirun" / "optimization_results.yaml"
    if path.exists():
        result = yaml.safe_load(path.read_text(encoding="utf-8"))
        best = "  ".join(f"{name}={value}" for name, value in result.get("best_params", {}).items())
        console.print(f"\nbest: {result.get('best_value', float('nan')):.2%} with {best}", markup=False)


def _table(runs: Sequence[Job]) -> Table:
    settings = [dict(arg.split("=", 1) for arg in job.overrides if "=" in arg) for job in runs]
    names = swept_settings([job.overrides for job in runs])
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in (*names, "last five", "status"):
        table.add_column(name.removeprefix("fl_scene."), justify="right" if name == "last five" else "left")
    for job, chosen in zip(runs, settings, strict=True):
        accuracy = read_json(job.record.folder / "summary.json").get("summary/last5_acc")
        shown = "" if accuracy is None else f"{accuracy:.2%}"
        table.add_row(*(chosen.get(name, "") for name in names), shown, job.record.status or "not started")
    return table
