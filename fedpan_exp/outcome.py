"""The first and the last thing a run says: its settings, what came out, where it lies."""

from typing import Any

from rich.table import Table

from fedpan_exp.checks import Diverged
from fedpan_exp.console import clock, console, say
from fedpan_exp.report import curves, partition
from fedpan_exp.tracking.files import read_json
from fedpan_exp.tracking.record import Record

SHOWN = {  # what a summary calls it, what the reader sees, and how
    "summary/last5_acc": ("test accuracy, mean of the last five", "{:.2%}".format),
    "summary/best_acc": ("test accuracy, best", "{:.2%}".format),
    "summary/final_acc": ("test accuracy, last", "{:.2%}".format),
    "summary/rounds": ("rounds", "{:,}".format),
    "summary/comm/up_bytes": ("sent by clients", lambda value: f"{value / 1e6:,.1f} MB"),
    "summary/comm/down_bytes": ("sent to clients", lambda value: f"{value / 1e6:,.1f} MB"),
    "summary/time/round_s": ("time in rounds", clock),
}
PICTURES = {"metrics.jsonl": curves.draw, "partition.csv": partition.draw}


def announce(record: Record) -> None:
    """The settings, a line a group."""
    console.print(f"[bold]{record.name}[/bold]")
    alone = {}
    for group, values in record.settings.items():
        if isinstance(values, dict):
            say(group, "  ".join(f"{key}={_short(value)}" for key, value in values.items()))
        else:
            alone[group] = values
    say("and", "  ".join(f"{key}={_short(value)}" for key, value in alone.items()))
    console.print()


def conclude(record: Record, earlier: bool = False) -> float | None:
    """Draw the pictures, print the summary; returns the last-five accuracy."""
    folder = record.folder
    for file, draw in PICTURES.items():
        if (folder / file).exists() and not earlier:
            draw(folder)
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
    console.print(f"\nin {folder}: {'  '.join(sorted(path.name for path in folder.iterdir()))}", markup=False)
    if earlier and status["status"] == "diverged":
        raise Diverged(status["reason"])
    return summary.get("summary/last5_acc")


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_short, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
