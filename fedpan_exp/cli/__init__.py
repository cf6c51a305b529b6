"""The command line: `python -m fedpan_exp`."""

from fedpan_exp.cli.app import main

__all__ = ["main"]
