"""Sweeps that are small enough for tests, and the runs that they leave."""

import re
from pathlib import Path

from fedpan_exp.system.atomic_io import read_json

SMOKE = ("scale=smoke", "model.width=16")


def runs(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in (folder / "runs").glob("federate-*")}


def job_lines(out: str) -> list[str]:
    """The lines on single runs."""
    return re.findall(r"^sweep  \d+/\d+  .*$", out, re.MULTILINE)


def status(folder: Path) -> str:
    return read_json(folder / "status.json").get("status", "not started")
