"""Output at the start and the end of a run: its settings, its results, its folder."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from fedpan_exp.config.choices import Choice
from fedpan_exp.system.atomic_io import read_json
from fedpan_exp.system.console import clock, console, print_status
from fedpan_exp.system.errors import Diverged
from fedpan_exp.tracking.logs import flat
from fedpan_exp.tracking.record import Record

SHOWN = {  # key of the summary -> label and format
    "summary/last5_acc": ("test accuracy, mean of the last five", "{:.2%}".format),
    "summary/best_acc": ("test accuracy, best", "{:.2%}".format),
    "summary/final_acc": ("test accuracy, last", "{:.2%}".format),
    "summary/test_acc": ("test accuracy, unshuffled", "{:.2%}".format),
    "summary/avg_middle": ("test accuracy midway, Avg", "{:.2%}".format),
    "summary/ot_middle": ("test accuracy midway, OT+Avg", "{:.2%}".format),
    "summary/rounds": ("rounds", "{:,}".format),
    "summary/comm/up_bytes": ("sent by clients", lambda value: f"{value / 1e6:,.1f} MB"),
    "summary/comm/down_bytes": ("sent to clients", lambda value: f"{value / 1e6:,.1f} MB"),
    "summary/rounds_to_target": ("rounds to the target accuracy", "{:,}".format),
    "summary/bytes_to_target": ("sent until then", lambda value: f"{value / 1e6:,.1f} MB"),
    "summary/time/round_s": ("time in rounds", clock),
}


def print_settings(record: Record, choices: Sequence[Choice]) -> None:
    """Print the settings, one line per group, and which of them another group or a sweep chose."""
    console.print(f"[bold]{record.name}[/bold]")
    ungrouped = {}
    for group, values in record.settings.items():
        if isinstance(values, dict):
            shown = {key.replace("/", "."): value for key, value in flat(values).items()}
            print_status(group, "  ".join(f"{key}={_short(value)}" for key, value in shown.items()))
        else:
            ungrouped[group] = values
    print_status("other", "  ".join(f"{key}={_short(value)}" for key, value in ungrouped.items()))
    if choices:
        by_chooser: dict[str, list[str]] = {}
        for choice in choices:
            by_chooser.setdefault(choice.chosen_by, []).append(f"{choice.setting}={_short(choice.value)}")
        print_status("chosen", "   ".join(f"{' '.join(chosen)} by {by}" for by, chosen in by_chooser.items()))
    console.print()


def print_results(record: Record, earlier: bool = False) -> float | None:
    """Print the summary and return the last-five accuracy. `earlier`: the run was finished before."""
    folder = record.folder
    summary = read_json(folder / "summary.json")
    table = Table(show_header=False, box=None, padding=(0, 2))
    for name, value in summary.items():
        label, show = SHOWN.get(name, (name.removeprefix("summary/"), "{:,.4g}".format))
        table.add_row(label, show(value))
    console.print()
    if earlier:
        status = read_json(folder / "status.json")
        reason = f" ({status['reason']})" if "reason" in status else ""
        console.print(f"already {status['status']}{reason}; use rerun=true to run it again", markup=False)
    console.print(table)
    console.print(
        f"\nin {folder}: {'  '.join(sorted(path.name for path in folder.iterdir() if path.name[0] != '.'))}",
        markup=False,
    )
    if earlier and status["status"] == "diverged":
        raise Diverged(status["reason"])
    return summary.get("summary/last5_acc")


def print_finished(record: Record) -> float | None:
    """Print one line on a run that was finished before; return the last-five accuracy."""
    status = read_json(record.folder / "status.json")
    last5 = read_json(record.folder / "summary.json").get("summary/last5_acc")
    accuracy = "" if last5 is None else f", last five {last5:.2%}"
    console.print(f"{record.name}: {status.get('status')}{accuracy}", markup=False)
    return last5


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_short, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
