"""A file from its address: goes on where an interrupted download stopped, and is whole or not there."""

import http.client
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path, PurePosixPath

from fedpan_exp.system.console import download as progress_in_bytes
from fedpan_exp.system.errors import DataError, first_line

TIMEOUT_S = 20  # seconds without an answer until an address counts as dead
PIECE = 1 << 18
UNSATISFIABLE = 416  # HTTP: there are no bytes from there on


@dataclass(frozen=True)
class Download:
    md5: str
    addresses: tuple[str, ...]  # mirrors, in the order to try them

    @property
    def name(self) -> str:
        return PurePosixPath(self.addresses[0]).name

    def into(self, folder: Path) -> Path:
        failures = []
        for address in self.addresses:
            try:
                return _fetch(address, folder / self.name, self.md5)
            except (DataError, http.client.HTTPException, OSError) as error:
                failures.append(f"{address}: {first_line(error)}")
        raise DataError("; ".join(failures))


def checksum(path: Path) -> str:
    digest = md5(usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _fetch(address: str, path: Path, expected: str) -> Path:
    if path.exists():  # from a fetch of several files that was interrupted at a later one
        return path
    part = path.with_name(f"{path.name}.part")
    resumed = part.exists()
    _transfer(address, part)
    found = checksum(part)
    if found == expected:
        os.replace(part, path)
        return path
    part.unlink()
    if resumed:  # what it went on from may have been of another file
        return _fetch(address, path, expected)
    raise DataError(f"what came is not {path.name} (md5 {found}, not {expected})")


def _transfer(address: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "fedpan_exp", "Range": f"bytes={have}-"}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=TIMEOUT_S) as answer:
            resumed = answer.status == http.HTTPStatus.PARTIAL_CONTENT
            have = have if resumed else 0  # a server that knows no ranges sends it all again
            total = have + int(answer.headers.get("Content-Length") or 0)
            with progress_in_bytes(part.stem, total) as progress, part.open("ab" if resumed else "wb") as file:
                progress.advance(have)
                while piece := answer.read(PIECE):
                    file.write(piece)
                    progress.advance(len(piece))
            if total > part.stat().st_size:
                raise DataError(f"cut off after {part.stat().st_size:,} of {total:,} bytes")
    except urllib.error.HTTPError as error:
        if error.code != UNSATISFIABLE or not have:
            raise
        # All there already: its checksum decides.
