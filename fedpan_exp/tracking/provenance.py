"""Where a run comes from: package versions, git commit, machine."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("fedpan_exp", "torch", "torchvision", "lightning", "hydra-core", "numpy", "wandb")


@cache
def provenance() -> dict[str, Any]:
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "git": git_commit(),
        "host": platform.node(),
        "platform": platform.platform(),
    }


def git_commit() -> str | None:
    """Return the commit of this checkout, with `+changes` if it is not clean; None for an installed wheel."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return commit + ("+changes" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *args: str) -> str:
    command = ["git", "-C", str(folder), *args]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
