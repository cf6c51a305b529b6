"""Files that are whole or not there: written under a temporary name, flushed, renamed."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from fedpan_exp.system.errors import UserError, first_line


class WriteError(UserError, OSError):
    """A disk that is full or may not be written to."""

    def __init__(self, path: Path, error: Exception):
        self.reason = first_line(error)
        super().__init__(f"{path} cannot be written ({self.reason}); mend that, and the same command goes on")


def atomic_write(path: Path, write: Callable[[Path], Any], flush: bool = True) -> None:
    """`write` gets a temporary path with the same ending as `path`. Not flushed, it may be lost with the power."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        write(temporary)
        if flush:
            flush_to_disk(temporary)
        os.replace(temporary, path)
        if flush:
            flush_to_disk(path.parent)
    except (OSError, SafetensorError) as error:
        raise WriteError(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """A file's content, or a folder's names: a new file outlives a power cut only when its folder is flushed, too."""
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
    """Empty where there is no such file, or a damaged one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSON-lines file; a last line cut off by a crash is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records
