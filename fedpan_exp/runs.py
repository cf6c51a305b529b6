"""python -m fedpan_exp.runs: the table of runs, and what it takes to finish them."""

import argparse
import json
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from rich.table import Table

from fedpan_exp.system.console import clock, console, errors
from fedpan_exp.system.errors import UserError
from fedpan_exp.tracking.runs import UNFINISHED, Entry, entries

EXAMPLES = """\
examples:
  python -m fedpan_exp.runs                              the runs in runs/
  python -m fedpan_exp.runs runs algorithm=scaffold pan.A=0.1 seed=0
  python -m fedpan_exp.runs runs --sweep alpha           a sweep's: done, running, failed, missing
  python -m fedpan_exp.runs runs status=failed           what failed, and why
  python -m fedpan_exp.runs runs --retry                 the commands that would finish what is not
  python -m fedpan_exp.runs runs --retry run             run them, one after another
  python -m fedpan_exp.runs runs --json                  for programs
"""
INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)
FEDERATED = ("federate", "shuffle_federate", "divergence", "matching", "preference")  # studies of H rounds
STYLES = {"done": "green", "running": "cyan", "interrupted": "yellow", "failed": "red", "diverged": "magenta"}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fedpan_exp.runs",
        description="Runs by status: done, running, interrupted, failed or diverged.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", metavar="folder | setting=value", help="where to look; which runs to show")
    parser.add_argument("--sweep", metavar="NAME", help="the runs this sweep covers, also those that are missing")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--retry",
        nargs="?",
        const="print",
        choices=("print", "run"),
        help="print, or run, what finishes the unfinished",
    )
    words = parser.parse_args()
    try:
        filters = [word for word in words.words if "=" in word]
        folders = [Path(word) for word in words.words if "=" not in word] or [Path("runs")]
        for folder in folders:
            if not folder.is_dir():
                raise UserError(f"there is no folder {folder}")
        found = entries(folders, filters, words.sweep)
        if not found:
            errors.print(f"no such runs in {', '.join(map(str, folders))}", markup=False)
        raise SystemExit(answer(found, words.json, words.retry))
    except UserError as error:
        errors.print(f"fedpan_exp: {error}", markup=False)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def answer(found: list[Entry], as_json: bool, retry: str | None) -> int:
    if retry:
        return finish([entry for entry in found if entry.status in UNFINISHED], run=retry == "run")
    if as_json:
        json.dump([describe(entry) for entry in found], sys.stdout, indent=2)
        print()
    elif console.is_terminal:
        show(found)
    else:
        for entry in found:
            print("\t".join(map(str, row(entry))))
    return 0


def finish(unfinished: list[Entry], run: bool) -> int:
    """The exit code is that of the last command that failed."""
    code = 0
    for entry in unfinished:
        print(entry.command, flush=True)
        if run:
            ended = wait_politely([sys.executable, *shlex.split(entry.command)[1:]])
            code = ended or code
            if ended in INTERRUPTED:
                break
    return code


def wait_politely(words: list[str]) -> int:
    """Ctrl-C reaches the run, too: let it write its checkpoint; pass on a scheduler's SIGTERM."""
    process = subprocess.Popen(words)
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
    }
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def row(entry: Entry) -> tuple[str, str, str, str, str]:
    accuracy = entry.summary.get("summary/last5_acc")
    rounds = f"{entry.rounds}{planned(entry)}" if entry.rounds else ""
    return entry.status, entry.name, rounds, "" if accuracy is None else f"{accuracy:.2%}", entry.reason


def planned(entry: Entry) -> str:
    """The rounds or epochs a run will have; other studies count measurements."""
    study = entry.settings.get("study", {})
    if study.get("name") in FEDERATED:
        return f"/{entry.settings['fl_scene']['H']}"
    return f"/{study['epochs']}" if study.get("name") == "centralize" else ""


def show(found: list[Entry]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("status", "run", "rounds", "last five", "why"):
        table.add_column(column, overflow="fold", justify="right" if column in ("rounds", "last five") else "left")
    for entry in found:
        table.add_row(*row(entry), style=STYLES.get(entry.status, ""))
    console.print(table)
    counts = Counter(entry.status for entry in found)
    seconds = sum(entry.summary.get("summary/time/round_s", 0) for entry in found)
    words = ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "no runs"
    console.print(f"\n{words}; {clock(seconds)} in rounds", markup=False)


def describe(entry: Entry) -> dict[str, object]:
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
