"""Output at the end of a sweep: the result of each run, what failed, where the folders are."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.table import Table

from fedpan_exp.sweeping.grids import as_settings, swept_settings
from fedpan_exp.sweeping.jobs import Job
from fedpan_exp.system.console import console
from fedpan_exp.tracking.runs import RunEntry

MAX_ROWS = 40


def print_summary(runs: Sequence[Job], sweep: str | None) -> None:
    """Print a table of the runs, and the command that draws them; `sweep` is the name of its file, if it has one."""
    if len(runs) < 2:
        return
    console.print()
    if len(runs) <= MAX_ROWS:
        console.print(_table(runs))
    counts = Counter(job.record.status or "not started" for job in runs)
    folder = runs[0].experiment.runs
    text = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    console.print(f"\nsweep  {text}, in {folder}", markup=False)
    option = f" --sweep {sweep}" if sweep else ""
    console.print(f"to see figures and tables: python -m fedpan_exp.report {folder}{option}", markup=False)


class SearchResult(Callback):
    """Prints the best result of Optuna, which chooses its jobs one by one. Named in sweeps/search.yaml."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        path = Path(config.hydra.sweep.dir, "optimization_results.yaml")
        if path.exists():
            result = yaml.safe_load(path.read_text(encoding="utf-8"))
            best = "  ".join(f"{name}={value}" for name, value in result.get("best_params", {}).items())
            console.print(f"\nbest: {result.get('best_value', float('nan')):.2%} with {best}", markup=False)


def _table(runs: Sequence[Job]) -> Table:
    names = swept_settings([job.overrides for job in runs])
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in (*names, "last five", "status"):
        table.add_column(name.removeprefix("fl_scene."), justify="right" if name == "last five" else "left")
    for job in runs:
        chosen = as_settings(job.overrides)
        accuracy = RunEntry(job.record.folder).summary.get("summary/last5_acc")
        shown = "" if accuracy is None else f"{accuracy:.2%}"
        table.add_row(*(chosen.get(name, "") for name in names), shown, job.record.status or "not started")
    return table
