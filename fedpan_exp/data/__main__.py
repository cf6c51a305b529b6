"""python -m fedpan_exp.data: which datasets are here, and get one."""

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
from fedpan_exp.system.console import console, error_console
from fedpan_exp.system.errors import UserError, require_choice

EXAMPLES = """\
examples:
  python -m fedpan_exp.data list                      every dataset of the paper: found where, complete or not
  python -m fedpan_exp.data list cinic10 --root /lab  read what the lab has, once; later starts load it in a second
  python -m fedpan_exp.data get cifar10 mnist         fetch, verify, keep

Files are taken as they lie: loose, .gz, .zip, .tar.gz or unpacked, in torchvision's folders or their own.
An interrupted download from an official address goes on where it stopped.
"""


def main() -> None:
    known = [*SOURCES, *BUILT_IN]
    parser = argparse.ArgumentParser(
        prog="python -m fedpan_exp.data",
        description="The datasets on this machine.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    root = os.environ.get("FEDPAN_DATA", "data")
    for name, about in {"list": "say what is there", "get": "fetch what is not"}.items():
        command = commands.add_parser(name, help=about, description=f"{about}: {', '.join(known)}")
        command.add_argument("names", nargs="*" if name == "list" else "+", metavar="dataset", help=", ".join(known))
        command.add_argument("--root", type=Path, default=Path(root), help=f"where the files lie, or go ({root})")
    commands.choices["list"].add_argument("--json", action="store_true", help="for programs")
    words = parser.parse_args()
    try:
        for name in words.names:
            require_choice("the dataset", name, known)
        if words.command == "list":
            show(words.root, words.names or known, words.json)
        else:
            get(words.root, words.names)
    except UserError as error:
        error_console.print(f"fedpan_exp: {error}", markup=False)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        error_console.print("fedpan_exp: interrupted; the same command goes on")
        raise SystemExit(130) from None


def show(root: Path, names: list[str], as_json: bool) -> None:
    with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout):  # progress is no part of the answer
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
