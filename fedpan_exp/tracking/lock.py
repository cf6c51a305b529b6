"""Who works on a run: a lock on its folder, which the system itself drops with the process, whatever the clocks say."""

from pathlib import Path

from filelock import FileLock, Timeout

from fedpan_exp.system.atomic_io import read_json
from fedpan_exp.system.errors import UserError


class RunLocked(UserError):
    """Somebody else is at work on this run."""


def lock_of(folder: Path) -> FileLock:
    return FileLock(folder / ".lock")


def lock_owner(folder: Path) -> str:
    """As far as the status tells."""
    status = read_json(folder / "status.json")
    if "process" not in status:
        return "another process"
    return f"process {status['process']} on {status['host']} (last heard of {status.get('heartbeat')})"


def is_locked(folder: Path) -> bool:
    try:
        with lock_of(folder).acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # a folder that may only be read: its status must do
        return read_json(folder / "status.json").get("status") == "running"
