"""Output at the start and the end of a run: what is special about its settings, its results, what to do next."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

from rich.table import Table

from fedpan_exp.cli.baseline import Baseline
from fedpan_exp.config.choices import Choice, describe_choices, short
from fedpan_exp.config.schema import LAST
from fedpan_exp.system.atomic_io import read_json, read_lines
from fedpan_exp.system.console import clock, console, print_status
from fedpan_exp.system.errors import Diverged
from fedpan_exp.tracking.logs import flat
from fedpan_exp.tracking.record import Record
from fedpan_exp.tracking.runs import RunEntry

NEAR_CHANCE = 1.5  # times the accuracy of guessing

SHOWN = {  # key of the summary -> label and format
    "summary/last5_acc": ("test accuracy, mean of the last {tests}", "{:.2%}".format),
    "summary/best_acc": ("test accuracy, best", "{:.2%}".format),
    "summary/final_acc": ("test accuracy, last", "{:.2%}".format),
    "summary/test_acc": ("test accuracy, unshuffled", "{:.2%}".format),
    "summary/avg_middle": ("test accuracy midway, Avg", "{:.2%}".format),
    "summary/ot_middle": ("test accuracy midway, OT+Avg", "{:.2%}".format),
    "summary/twin_acc": ("test accuracy of the plain twin, last", "{:.2%}".format),
    "summary/difference": ("largest difference of a weight", "{:.1e}".format),
    "summary/rounding": ("the same by rounding alone", "{:.1e}".format),
    "summary/absorbed": ("absorbed", lambda value: "yes" if value else "no"),
    "summary/rounds": ("rounds", "{:,}".format),
    "summary/comm/up_bytes": ("sent by clients", lambda value: f"{value / 1e6:,.1f} MB"),
    "summary/comm/down_bytes": ("sent to clients", lambda value: f"{value / 1e6:,.1f} MB"),
    "summary/rounds_to_target": ("rounds to an accuracy of {target:g}%", "{:,}".format),
    "summary/bytes_to_target": ("sent until then", lambda value: f"{value / 1e6:,.1f} MB"),
    "summary/time/round_s": ("time in rounds", clock),
}


def print_settings(record: Record, changed: Sequence[str], choices: Sequence[Choice], verbose: bool) -> None:
    """Print the settings that differ from the defaults, those that another group chose, and with `verbose` all."""
    console.print(f"[bold]{record.name}[/bold]")
    print_status("changed", "  ".join(changed) or "nothing: the default experiment", style="bold cyan")
    if choices:
        print_status("chosen", describe_choices(choices), style="yellow")
    if verbose:
        print_all_settings(record)
    else:
        defaults = len(flat(record.settings)) - len(changed) - len(choices)
        print_status("defaults", f"{defaults} other settings, in config.yaml; verbose=true prints them", style="dim")


def print_all_settings(record: Record) -> None:
    """Print every setting, one line per group."""
    ungrouped = {}
    for group, values in record.settings.items():
        if isinstance(values, dict):
            shown = flat(values, separator=".")
            print_status(group, "  ".join(f"{key}={short(value)}" for key, value in shown.items()))
        else:
            ungrouped[group] = values
    print_status("other", "  ".join(f"{key}={short(value)}" for key, value in ungrouped.items()))


def print_results(record: Record, baseline: Baseline | None = None, earlier: bool = False) -> float | None:
    """Print the results and return the last-five accuracy. `earlier`: the run was finished before."""
    folder, status = record.folder, read_json(record.folder / "status.json")
    summary = read_json(folder / "summary.json")
    console.print()
    if earlier:
        reason = f" ({status['reason']})" if "reason" in status else ""
        console.print(f"already {status['status']}{reason}; use rerun=true to run it again", markup=False)
    console.print(results_table(record, summary))
    console.print()
    accuracy, chance = summary.get("summary/last5_acc"), 1 / record.settings["dataset"]["classes"]
    if accuracy is not None and accuracy < NEAR_CHANCE * chance:
        advice = f"near chance ({chance:.0%}): more rounds or epochs, or another training.lr, may help"
        print_status("remark", advice, style="yellow")
    for picture in sorted(folder.glob("*.png")):
        print_status("picture", str(picture))
    if baseline:
        print_status("baseline", baseline.describe(accuracy))
    print_status("report", f"python -m fedpan_exp.report {record.settings['runs']}")
    files = sorted(path.name for path in folder.iterdir() if path.name[0] != "." and path.suffix != ".png")
    print_status("folder", f"{folder}: {'  '.join(files)}")
    if earlier and status["status"] == "diverged":
        raise Diverged(status["reason"])
    return accuracy


def _short(value: Any) -> str:
    """A value of a plugin's study, which need not be a number."""
    return f"{value:,.4g}" if isinstance(value, Real) else str(value)


def results_table(record: Record, summary: dict[str, float]) -> Table:
    records = record.folder / "metrics.jsonl"
    tested = sum("global/test_acc" in line for line in read_lines(records)) if records.exists() else 0
    target = RunEntry(record.folder).settings.get("target_acc", 0)  # of the run, which may have ended with another one
    table = Table(show_header=False, box=None, padding=(0, 2))
    for name, value in summary.items():
        label, show = SHOWN.get(name, (name.removeprefix("summary/"), _short))
        table.add_row(label.format(tests=min(tested, LAST), target=100 * target), show(value))
    return table
