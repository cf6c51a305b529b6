"""Download a file: an interrupted download is resumed, and only a verified file gets its final name."""

import http.client
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from hashlib import file_digest, md5
from pathlib import Path, PurePosixPath

from fedpan_exp.system.console import download as progress_in_bytes
from fedpan_exp.system.errors import DataError, first_line

TIMEOUT_S = 20  # without an answer from the server
CHUNK_BYTES = 1 << 18
UNSATISFIABLE = 416  # HTTP: the requested range starts at or after the end of the file


@dataclass(frozen=True)
class Download:
    md5: str
    urls: tuple[str, ...]  # mirrors, in the order to try them

    @property
    def name(self) -> str:
        return PurePosixPath(self.urls[0]).name

    def fetch_to(self, folder: Path) -> Path:
        failures = []
        for url in self.urls:
            try:
                return _fetch(url, folder / self.name, self.md5)
            except (DataError, http.client.HTTPException, OSError) as error:
                failures.append(f"{url}: {first_line(error)}")
        raise DataError("; ".join(failures))


def checksum(path: Path) -> str:
    """MD5 of a file."""
    with path.open("rb") as file:
        return file_digest(file, lambda: md5(usedforsecurity=False)).hexdigest()


def _fetch(url: str, path: Path, expected: str) -> Path:
    if path.exists():  # complete, from an earlier attempt that failed at another file
        return path
    part = path.with_name(f"{path.name}.part")
    resumed = part.exists()
    _transfer(url, part)
    actual = checksum(part)
    if actual == expected:
        os.replace(part, path)
        return path
    part.unlink()
    if resumed:  # the partial file may have belonged to another version: start over
        return _fetch(url, path, expected)
    raise DataError(f"the downloaded file is not {path.name} (md5 {actual}, not {expected})")


def _transfer(url: str, part: Path) -> None:
    """Download to `part`, resuming after the bytes it already has."""
    offset = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "fedpan_exp", "Range": f"bytes={offset}-"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S) as response:
            resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT
            offset = offset if resumed else 0  # a server without range support sends the whole file
            total = offset + int(response.headers.get("Content-Length") or 0)
            with progress_in_bytes(part.stem, total) as progress, part.open("ab" if resumed else "wb") as file:
                progress.advance(offset)
                while chunk := response.read(CHUNK_BYTES):
                    file.write(chunk)
                    progress.advance(len(chunk))
            if total > part.stat().st_size:
                raise DataError(f"cut off after {part.stat().st_size:,} of {total:,} bytes")
    except urllib.error.HTTPError as error:
        if error.code != UNSATISFIABLE or not offset:
            raise
        # The partial file is already complete; the caller verifies its checksum.
