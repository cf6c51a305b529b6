"""Output at the end of a sweep: the result of each run, what failed, where the folders are."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from fedpan_exp.sweeping.grids import as_settings, short_name, swept_settings
from fedpan_exp.sweeping.jobs import Job
from fedpan_exp.system.console import console, plain_table

MAX_ROWS = 40


def print_summary(runs: Sequence[Job], sweep: str | None) -> None:
    """Print a table of the runs, and the command that draws them; `sweep` is the name of its file, if it has one."""
    if len(runs) < 2:
        return
    console.print()
    if len(runs) <= MAX_ROWS:
        names = swept_settings([job.overrides for job in runs])
        values = {short_name(name): [as_settings(job.overrides).get(name, "") for job in runs] for name in names}
        if any(accuracies := [job.accuracy for job in runs]):  # some studies have none
            values["last five"] = accuracies
        values["status"] = [_status(job) for job in runs]
        console.print(plain_table(values, zip(*values.values(), strict=True), numbers=["last five"]))
    counts = Counter(_status(job) for job in runs)
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


def _status(job: Job) -> str:
    return job.record.status or "not started"
