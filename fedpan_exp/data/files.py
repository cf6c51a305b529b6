"""Find and read dataset files: plain or compressed, in folders, in a zip or tar archive.

Archives are read in place and never extracted to disk, so none can write outside its folder.
"""

import gzip
import lzma
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from pathlib import Path, PurePosixPath

from fedpan_exp.system.errors import DataError, first_line, listed

DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".xz": lzma.decompress}
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz")
CHUNK_BYTES = 1 << 20


def unreadable(name: str | Path, error: Exception) -> DataError:
    return DataError(f"{name} cannot be read ({first_line(error)}); replace it or delete it to download it again")


@dataclass(frozen=True)
class File:
    name: str  # path for messages; for a member of an archive, archive path/member name
    content: bytes | Path  # a path if not yet read

    def read(self) -> bytes:
        try:
            content = self.content if isinstance(self.content, bytes) else self.content.read_bytes()
            decompress = DECOMPRESS.get(PurePosixPath(self.name).suffix)
            return decompress(content) if decompress else content
        except Exception as error:  # each format raises its own exceptions on damaged files
            raise unreadable(self.name, error) from None


@dataclass(frozen=True)
class Files:
    """The files of a dataset below one folder, sorted by path."""

    folder: Path
    names: list[str]
    fingerprint: str  # of names, sizes, times and inodes: if it is unchanged, so is the content

    @cached_property
    def paths(self) -> list[Path]:
        """Created on demand: a start from cached tensors needs the fingerprint alone."""
        return [Path(name) for name in self.names]

    def matching(self, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], File]]:
        """Yield the plain files and archive members whose path contains the pattern."""
        for path in self.paths:
            if is_archive(path.name):
                yield from _members(path, pattern)
            elif match := pattern.search(path.as_posix()):
                yield match, File(str(path), path)

    def count(self, official: int) -> int:
        """Number of files, or the official number if some are in archives."""
        return official if any(map(is_archive, self.names)) else len(self.names)

    def require(self, required: Iterable[str], present: Container[str]) -> None:
        missing = [name for name in required if name not in present]
        if missing:
            raise DataError(
                f"{self.folder} lacks {listed(missing)}; add what is missing, or delete the rest to download all"
            )

    def digest(self) -> str:
        """SHA-256 of the contents and relative names: unchanged by copying or moving the folder."""
        digest = sha256()
        for path in self.paths:
            try:
                with path.open("rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    digest.update(f"{path.relative_to(self.folder).as_posix()}\0{size}\0".encode())
                    while chunk := file.read(CHUNK_BYTES):
                        digest.update(chunk)
            except OSError as error:
                raise unreadable(path, error) from None
        return digest.hexdigest()


class EmptyDatasetFolder(DataError):
    """The dataset's folder exists but has none of its files."""


def archive(stem: str) -> re.Pattern[str]:
    """Pattern for the names of a dataset's archives, from a pattern for the name without suffix."""
    return re.compile(rf"(?:{stem})(?:{'|'.join(map(re.escape, ARCHIVES))})", re.IGNORECASE)


def is_archive(name: str) -> bool:
    return name.lower().endswith(ARCHIVES)


def find_files(
    root: Path, search_dirs: Sequence[str], files: re.Pattern[str], archives: re.Pattern[str]
) -> Files | None:
    """Search the usual folders of a dataset, then the root itself.

    Plain files take precedence over archives, because people often keep both.
    """
    is_dataset_dir = any(root.resolve().as_posix().endswith(f"/{name}") for name in search_dirs)
    try:
        folders = [root / name for name in search_dirs if (root / name).is_dir()]
        for folder in [*folders, root]:
            entries = _scan(folder, recursive=folder != root or is_dataset_dir)
            matches = [entry for entry in entries if files.search(entry.path)]
            compressed = [entry for entry in matches if entry.name.endswith(tuple(DECOMPRESS))]
            if not matches:
                matches = compressed = [entry for entry in entries if archives.fullmatch(entry.name)]
            if matches:
                matches.sort(key=attrgetter("path"))
                if compressed:
                    matches = _without_duplicates(matches, (*DECOMPRESS, *ARCHIVES))
                return Files(folder, [entry.path for entry in matches], _fingerprint(folder, matches))
    except OSError as error:  # no permission, a cycle of links, a name that is too long
        raise DataError(f"{error.filename or root} cannot be read ({error.strerror})") from None
    if folders:
        raise EmptyDatasetFolder(
            f"{folders[0]} has no file of the dataset; add its files, or delete the folder to download them"
        )
    return None


def _scan(folder: Path, recursive: bool) -> list[os.DirEntry[str]]:
    """All files except hidden ones: metadata of other programs and unfinished downloads of ours."""
    files: list[os.DirEntry[str]] = []
    folders = [str(folder)] if folder.is_dir() else []
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name[0] == ".":
                    continue
                if entry.is_file():
                    files.append(entry)
                elif recursive and entry.is_dir():
                    folders.append(entry.path)
    return files


def _without_duplicates(entries: list[os.DirEntry[str]], suffixes: tuple[str, ...]) -> list[os.DirEntry[str]]:
    """Keep the first of the files that differ only in suffix: x before x.gz, femnist.tar.gz before femnist.zip."""
    longest_first = sorted(suffixes, key=len, reverse=True)
    first: dict[str, os.DirEntry[str]] = {}
    for entry in entries:
        suffix = next((suffix for suffix in longest_first if entry.name.lower().endswith(suffix)), "")
        first.setdefault(entry.path[: len(entry.path) - len(suffix)], entry)
    return list(first.values())


def _fingerprint(folder: Path, entries: Sequence[os.DirEntry[str]]) -> str:
    prefix = len(str(folder))
    lines = [
        f"{entry.path[prefix:]}|{(s := entry.stat()).st_size}|{s.st_mtime_ns}|{s.st_ctime_ns}|{s.st_ino}"
        for entry in entries
    ]
    return sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


Members = Iterator[tuple[re.Match[str], File]]


def _members(path: Path, pattern: re.Pattern[str]) -> Members:
    read = _zip_members if path.suffix.lower() == ".zip" else _tar_members
    try:
        yield from read(path, pattern)
    except DataError:
        raise
    except Exception as error:  # each archive module raises its own exceptions on damaged files
        raise unreadable(path, error) from None


def _zip_members(path: Path, pattern: re.Pattern[str]) -> Members:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            is_link = stat.S_ISLNK(member.external_attr >> 16)
            match = _match_member(path, member.filename, is_link, pattern)
            if match and not member.is_dir():
                yield match, File(f"{path}/{member.filename}", archive.read(member))


def _tar_members(path: Path, pattern: re.Pattern[str]) -> Members:
    with tarfile.open(path, "r|*") as archive:  # as a stream: each seek in a compressed tar decompresses it again
        for member in archive:
            match = _match_member(path, member.name, member.issym() or member.islnk(), pattern)
            if match and member.isfile():
                file = archive.extractfile(member)
                assert file is not None
                yield match, File(f"{path}/{member.name}", file.read())


def _match_member(path: Path, member: str, is_link: bool, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """Match a member's name; refuse links and paths that would leave the folder on extraction."""
    inner = PurePosixPath(member)
    if is_link or inner.is_absolute() or ".." in inner.parts:  # no official archive has such members
        kind = "is a link" if is_link else "would be written outside its folder"
        raise DataError(
            f"{path} is not safe: its member {member} {kind}; download the archive from its official address"
        )
    hidden = inner.name.startswith(".") or "__MACOSX" in inner.parts
    return None if hidden else pattern.search(member)
