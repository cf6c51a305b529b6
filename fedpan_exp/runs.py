"""python -m fedpan_exp.runs: a table of runs, and the commands that finish them."""

import argparse
import json
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from rich.table import Table

from fedpan_exp.system.console import clock, console, counted, error_console, exit_on_error
from fedpan_exp.system.errors import UserError
from fedpan_exp.tracking.archive import as_folder, write_archive
from fedpan_exp.tracking.runs import FINISHED, UNFINISHED, RunEntry, find_runs
from fedpan_exp.tracking.wandb_sync import sync

EXAMPLES = """\
examples:
  python -m fedpan_exp.runs                              the runs in runs/
  python -m fedpan_exp.runs runs algorithm=scaffold pan.A=0.1 seed=0
  python -m fedpan_exp.runs runs --sweep alpha           those of a sweep: done, running, failed, missing
  python -m fedpan_exp.runs runs status=failed           what failed, and why
  python -m fedpan_exp.runs runs --retry                 the commands that finish unfinished runs
  python -m fedpan_exp.runs runs --retry run             run these commands, one after another
  python -m fedpan_exp.runs runs --json                  as JSON
  python -m fedpan_exp.runs runs --zip runs.zip          settings and records in one file, which the report reads
  python -m fedpan_exp.runs sync runs                    upload the W&B runs that were logged offline
"""
INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)
STYLES = {"done": "green", "running": "cyan", "interrupted": "yellow", "failed": "red", "diverged": "magenta"}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fedpan_exp.runs",
        description="List runs by status: done, running, interrupted, failed or diverged.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "args",
        nargs="*",
        metavar="folder | setting=value",
        help="folders of runs; which runs to show; sync before them",
    )
    parser.add_argument("--sweep", metavar="NAME", help="show the runs that this sweep covers, including missing ones")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--zip", type=Path, metavar="FILE", help="archive settings and records of finished runs")
    parser.add_argument(
        "--retry",
        nargs="?",
        const="print",
        choices=("print", "run"),
        help="print, or run, the commands that finish unfinished runs",
    )
    args = parser.parse_args()
    with exit_on_error():
        is_sync, paths = args.args[:1] == ["sync"], args.args
        if is_sync:
            paths = paths[1:]
        filters = [arg for arg in paths if "=" in arg]
        folders = [Path(arg) for arg in paths if "=" not in arg] or [Path("runs")]
        runs = find_runs([as_folder(folder) for folder in folders], filters, args.sweep)
        if is_sync:
            raise SystemExit(sync([run.folder for run in runs if run.status != "running"]))
        if args.zip:
            raise SystemExit(archive([run for run in runs if run.status in FINISHED], args.zip))
        if not runs:
            error_console.print(f"no matching runs in {', '.join(map(str, folders))}", markup=False)
        raise SystemExit(show(runs, args.json, args.retry))


def archive(runs: list[RunEntry], path: Path) -> int:
    if not runs:
        raise UserError("there is no finished run to archive")
    write_archive(path, runs)
    console.print(f"{counted(len(runs), 'run')} in {path}: python -m fedpan_exp.report {path}")
    return 0


def show(runs: list[RunEntry], as_json: bool, retry: str | None) -> int:
    if retry:
        return finish([run for run in runs if run.status in UNFINISHED], run=retry == "run")
    if as_json:
        json.dump([describe(run) for run in runs], sys.stdout, indent=2)
        print()
    elif console.is_terminal:
        print_table(runs)
    else:
        for run in runs:
            print("\t".join(map(str, row(run))))
    return 0


def finish(unfinished: list[RunEntry], run: bool) -> int:
    """Print, or run, the command of each run; return the exit code of the last command that failed."""
    exit_code = 0
    for entry in unfinished:
        print(entry.command, flush=True)
        if run:
            code = run_forwarding_signals([sys.executable, *shlex.split(entry.command)[1:]])
            exit_code = code or exit_code
            if code in INTERRUPTED:
                break
    return exit_code


def run_forwarding_signals(command: list[str]) -> int:
    """Run a command and forward SIGTERM. Ctrl-C reaches the child directly; wait while it writes its checkpoint."""
    process = subprocess.Popen(command)
    previous = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
    }
    try:
        return process.wait()
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)


def row(entry: RunEntry) -> tuple[str, str, str, str, str]:
    accuracy = entry.summary.get("summary/last5_acc")
    total = f"/{entry.total_rounds}" if entry.total_rounds else ""
    rounds = f"{entry.rounds}{total}" if entry.rounds else ""
    return entry.status, entry.name, rounds, "" if accuracy is None else f"{accuracy:.2%}", entry.reason


def print_table(runs: list[RunEntry]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("status", "run", "rounds", "last five", "reason"):
        table.add_column(column, overflow="fold", justify="right" if column in ("rounds", "last five") else "left")
    for run in runs:
        table.add_row(*row(run), style=STYLES.get(run.status, ""))
    console.print(table)
    counts = Counter(run.status for run in runs)
    seconds = sum(run.summary.get("summary/time/round_s", 0) for run in runs)
    text = ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "no runs"
    console.print(f"\n{text}; {clock(seconds)} in rounds", markup=False)


def describe(entry: RunEntry) -> dict[str, object]:
    return {
        "run": entry.name,
        "folder": str(entry.folder),
        "status": entry.status,
        "reason": entry.reason,
        "rounds": entry.rounds,
        **entry.summary,
        "settings": entry.settings,
        "command": entry.command,
    }


if __name__ == "__main__":
    main()
