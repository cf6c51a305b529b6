"""python -m fedpan_exp.data: list the datasets on this machine, or download some."""

import argparse
import contextlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from fedpan_exp.data.dataset import BUILT_IN, SOURCES
from fedpan_exp.data.inventory import inventory
from fedpan_exp.data.store import load_or_download
from fedpan_exp.system.console import console, exit_on_error
from fedpan_exp.system.errors import require_choice

EXAMPLES = """\
examples:
  python -m fedpan_exp.data list                      every dataset: location, complete or not, checksum, licence
  python -m fedpan_exp.data list cinic10 --root /lab  decode existing files once; later starts load the cached tensors
  python -m fedpan_exp.data get cifar10 mnist         download, verify, save

Files may be plain, .gz, .zip, .tar.gz or extracted, in torchvision's folder layout or the dataset's own.
To resume an interrupted download from an official address, run the same command again.
"""


def main() -> None:
    available = [*SOURCES, *BUILT_IN]
    parser = argparse.ArgumentParser(
        prog="python -m fedpan_exp.data",
        description="List or download datasets.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    root = os.environ.get("FEDPAN_DATA", "data")
    for name, summary in {"list": "show the state of datasets", "get": "download missing datasets"}.items():
        command = commands.add_parser(name, help=summary, description=f"{summary}: {', '.join(available)}")
        command.add_argument(
            "names", nargs="*" if name == "list" else "+", metavar="dataset", help=", ".join(available)
        )
        command.add_argument("--root", type=Path, default=Path(root), help=f"folder of the datasets (default: {root})")
    commands.choices["list"].add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    with exit_on_error(interrupted="interrupted; run the same command to resume"):
        for name in args.names:
            require_choice("the dataset", name, available)
        if args.command == "list":
            show(args.root, args.names or available, args.json)
        else:
            get(args.root, args.names)


def show(root: Path, names: list[str], as_json: bool) -> None:
    with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout):  # keep progress out of the JSON
        items = inventory(root, names)
    if as_json:
        json.dump([asdict(item) for item in items], sys.stdout, indent=2)
        print()
        return
    console.print(f"in {root}", markup=False)
    for item in items:
        size = f"{item.megabytes:,.1f} MB" if item.where else ""
        row = f"{item.dataset:<14}{item.state:<10}{item.images:<24}{size:>10}  {item.checksum}"
        style = {"complete": "bold", "missing": "dim"}.get(item.state, "red")
        console.print(f"\n{row}".rstrip(), style=style, markup=False)
        for line in (item.wrong, item.where, "" if item.state == "complete" else item.get, f"licence: {item.licence}"):
            if line:
                console.print(f"  {line}", markup=False)


def get(root: Path, names: list[str]) -> None:
    for name in names:
        if name not in BUILT_IN:
            load_or_download(SOURCES[name], root)
    show(root, names, as_json=False)


if __name__ == "__main__":
    main()
