"""python -m fedpan_exp.report: figures, tables and one page from run folders."""

import argparse
import time
from pathlib import Path

from fedpan_exp.report.build import Report
from fedpan_exp.system.console import console, error_console
from fedpan_exp.system.errors import UserError, require

EXAMPLES = """\
examples:
  python -m fedpan_exp.report                              runs/ -> report/index.html, figures and tables
  python -m fedpan_exp.report runs /mnt/other/runs         runs of several machines together
  python -m fedpan_exp.report runs --sweep alpha           one sweep only; --sweep again for another
  python -m fedpan_exp.report runs --out paper --target 0.9
  python -m fedpan_exp.report runs --watch                 again whenever a run has moved on; Ctrl-C ends it
"""
PAUSE = 3  # seconds between two looks


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fedpan_exp.report",
        description="The paper's exhibits, honest statistics and one page, from run folders alone.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("runs")], help="where run folders lie (runs)")
    parser.add_argument("--sweep", action="append", default=[], help="only this sweep; may be given again")
    parser.add_argument("--out", type=Path, default=Path("report"), help="where to write (report)")
    parser.add_argument(
        "--target", type=float, default=0.8, help="accuracy to count rounds, bytes and seconds to (0.8)"
    )
    parser.add_argument("--watch", action="store_true", help="go on, and rebuild what changes")
    words = parser.parse_args()
    try:
        require(0 < words.target <= 1, "--target", "above 0 and at most 1", words.target)
        report = Report(words.folders, words.out, words.sweep, words.target)
        console.print(report.build(words.watch), markup=False)
        if words.watch:
            watch(report)
    except UserError as error:
        error_console.print(f"fedpan_exp: {error}", markup=False)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def watch(report: Report) -> None:
    """Until Ctrl-C, which is how it is meant to end."""
    console.print("watching; Ctrl-C ends it")
    seen = report.collection.state()
    try:
        while True:
            time.sleep(PAUSE)
            now = report.collection.state()
            if now != seen:
                seen = now
                console.print(report.build(watching=True), markup=False)
    except KeyboardInterrupt:
        console.print("\nno longer watching; the page stands as it is")


if __name__ == "__main__":
    main()
