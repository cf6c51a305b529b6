"""The first and the last thing a run says: its settings, what came out, where it lies."""

from typing import Any

from rich.table import Table

from fedpan_exp.system.atomic_io import read_json
from fedpan_exp.system.console import clock, console, print_status
from fedpan_exp.system.errors import Diverged
from fedpan_exp.tracking.logs import flat
from fedpan_exp.tracking.record import Record

SHOWN = {  # what a summary calls it, what the reader sees, and how
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


def announce(record: Record) -> None:
    """The settings, a line a group."""
    console.print(f"[bold]{record.name}[/bold]")
    alone = {}
    for group, values in record.settings.items():
        if isinstance(values, dict):
            shown = {key.replace("/", "."): value for key, value in flat(values).items()}
            print_status(group, "  ".join(f"{key}={_short(value)}" for key, value in shown.items()))
        else:
            alone[group] = values
    print_status("and", "  ".join(f"{key}={_short(value)}" for key, value in alone.items()))
    console.print()


def conclude(record: Record, earlier: bool = False) -> float | None:
    """Print the summary; returns the last-five accuracy."""
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
        console.print(f"already {status['status']}{reason}; rerun=true runs it again", markup=False)
    console.print(table)
    console.print(
        f"\nin {folder}: {'  '.join(sorted(path.name for path in folder.iterdir() if path.name[0] != '.'))}",
        markup=False,
    )
    if earlier and status["status"] == "diverged":
        raise Diverged(status["reason"])
    return summary.get("summary/last5_acc")


def remark(record: Record) -> float | None:
    """A line on a run that was finished before."""
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
