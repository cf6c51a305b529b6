"""python -m fedpan_exp.report: figures, tables and one page from run folders."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from fedpan_exp.report.build import Report
from fedpan_exp.report.frame import Signature
from fedpan_exp.report.verdicts import NOT_RUN, Judged, count_verdicts, verdict_table
from fedpan_exp.system.console import console, exit_on_error, plain_table
from fedpan_exp.system.errors import require

EXAMPLES = """\
examples:
  python -m fedpan_exp.report                              runs/ -> report/index.html, figures and tables
  python -m fedpan_exp.report runs /mnt/other/runs         runs of several machines together
  python -m fedpan_exp.report runs.zip                     an archive, written by python -m fedpan_exp.runs --zip
  python -m fedpan_exp.report runs --sweep alpha           one sweep only; --sweep again for another
  python -m fedpan_exp.report runs --out paper --target 0.9
  python -m fedpan_exp.report runs --claims                which claims of the paper hold, how sure that is
  python -m fedpan_exp.report runs --watch                 rebuild whenever a run changes, until Ctrl-C
"""
POLL_S = 3


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fedpan_exp.report",
        description="The paper's figures and tables, paired statistics and one HTML page, from run folders.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "folders", nargs="*", type=Path, default=[Path("runs")], help="folders of runs, or their archives (runs)"
    )
    parser.add_argument("--sweep", action="append", default=[], help="only this sweep; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder to write to (report)")
    parser.add_argument(
        "--target", type=float, default=0.8, help="accuracy up to which rounds, bytes and seconds are counted (0.8)"
    )
    parser.add_argument("--claims", action="store_true", help="print a verdict per claim of the paper")
    parser.add_argument("--watch", action="store_true", help="keep running, and rebuild what changes")
    args = parser.parse_args()
    with exit_on_error():
        require(0 < args.target <= 1, "--target", "above 0 and at most 1", args.target)
        report = Report(args.folders, args.out, args.sweep, args.target)
        state = report.state() if args.watch else ()
        console.print(report.build(args.watch), markup=False)
        if args.claims:
            print_claims(report.judged)
        if args.watch:
            rebuild_on_change(report, state)


def print_claims(judged: Sequence[Judged]) -> None:
    """Print the claims that have runs, then the counts of all."""
    table = verdict_table([each for each in judged if each.verdict != NOT_RUN]).drop(columns="command", errors="ignore")
    console.print(plain_table(table.columns, table.to_numpy()))
    console.print(f"{len(judged)} claims: {count_verdicts(judged)}", markup=False)


def rebuild_on_change(report: Report, state: Signature) -> None:
    """Rebuild until Ctrl-C, which is the regular end; `state` is that of before the last build."""
    console.print("watching for changes; stop with Ctrl-C")
    try:
        while True:
            time.sleep(POLL_S)
            new_state = report.state()
            if new_state != state:
                state = new_state
                console.print(report.build(watching=True), markup=False)
    except KeyboardInterrupt:
        console.print("\nstopped watching; the report is left as it is")


if __name__ == "__main__":
    main()
