"""Atomic file writes: write under a temporary name, flush, rename. A reader never sees half a file."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError

from fedpan_exp.system.errors import UserError, first_line


class WriteError(UserError, OSError):
    """A file that cannot be written: the disk is full or read-only."""

    def __init__(self, message: str, reason: str = ""):
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, what: object, error: Exception, remaining: str = "") -> Self:
        """What was not written and why, what remains, and what to do."""
        reason = error.reason if isinstance(error, WriteError) else first_line(error)
        message = f"{what} cannot be written ({reason}){remaining}; fix that, then run the same command to resume"
        return cls(message, reason)


def atomic_write(path: Path, write: Callable[[Path], Any], flush: bool = True) -> None:
    """Call `write` with a temporary path of the same suffix, then rename. Unflushed, a power cut may lose the file."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        write(temporary)
        if flush:
            flush_to_disk(temporary)
        os.replace(temporary, path)
        if flush:
            flush_to_disk(path.parent)
    except (OSError, SafetensorError) as error:
        raise WriteError.of(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """Sync a file or a folder. A new file survives a power cut only if its folder is synced too."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    atomic_write(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty if the file is missing or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the records of a JSON-lines file, up to a line that a crash cut off."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records
