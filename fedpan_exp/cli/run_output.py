"""Output at the start and the end of a run: its settings, its results, its folder."""

from collections.abc import Sequence

from rich.table import Table

from fedpan_exp.config.choices import Choice, describe_choices, short
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
    "summary/twin_acc": ("test accuracy of the plain twin, last", "{:.2%}".format),
    "summary/difference": ("largest difference of a weight", "{:.1e}".format),
    "summary/absorbed": ("absorbed", lambda value: "yes" if value else "no"),
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
            print_status(group, "  ".join(f"{key}={short(value)}" for key, value in shown.items()))
        else:
            ungrouped[group] = values
    print_status("other", "  ".join(f"{key}={short(value)}" for key, value in ungrouped.items()))
    if choices:
        print_status("chosen", describe_choices(choices))
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
