"""A lock per run folder, so that one process at a time works on a run. The system releases it when the process ends."""

from pathlib import Path

from filelock import FileLock, Timeout

from fedpan_exp.system.atomic_io import read_json
from fedpan_exp.system.errors import UserError


class RunLocked(UserError):
    """Another process works on this run."""


def lock_of(folder: Path) -> FileLock:
    return FileLock(folder / ".lock")


def lock_owner(folder: Path) -> str:
    """Describe the process that holds the lock, from status.json."""
    status = read_json(folder / "status.json")
    if "process" not in status:
        return "another process"
    return f"process {status['process']} on {status['host']} (last heartbeat {status.get('heartbeat')})"


def is_locked(folder: Path) -> bool:
    try:
        with lock_of(folder).acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # a read-only folder: rely on its status
        return read_json(folder / "status.json").get("status") == "running"
