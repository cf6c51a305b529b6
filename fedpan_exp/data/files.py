"""Files as people have them: loose or packed singly, in folders, in a zip or a tar.

Everything is read where it lies and nothing is unpacked to disk, so no archive can write anywhere.
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

UNPACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".xz": lzma.decompress}
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz")
PIECE = 1 << 20


def unreadable(name: str | Path, error: Exception) -> DataError:
    return DataError(f"{name} cannot be read ({first_line(error)}); replace it or delete it to fetch it again")


@dataclass(frozen=True)
class File:
    name: str  # for people: its path, behind that of the archive it is in
    content: bytes | Path  # a path where it need not have been read yet

    def read(self) -> bytes:
        try:
            content = self.content if isinstance(self.content, bytes) else self.content.read_bytes()
            unpack = UNPACK.get(PurePosixPath(self.name).suffix)
            return unpack(content) if unpack else content
        except Exception as error:  # each packer has its own ways to say that a file is damaged
            raise unreadable(self.name, error) from None


@dataclass(frozen=True)
class Files:
    """The files of a dataset below one folder, in the order of their names."""

    folder: Path
    names: list[str]
    fingerprint: str  # of names, sizes and times: as long as it stays, so does the content

    @cached_property
    def paths(self) -> list[Path]:
        """Made when they are asked for: most starts need no more than the stamp."""
        return [Path(name) for name in self.names]

    def matching(self, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], File]]:
        """Files, loose or in archives, with a name that the pattern is found in."""
        for path in self.paths:
            if is_archive(path.name):
                yield from _members(path, pattern)
            elif match := pattern.search(path.as_posix()):
                yield match, File(str(path), path)

    def count(self, official: int) -> int:
        """How many there are, where nothing is packed; else how many there ought to be."""
        return official if any(map(is_archive, self.names)) else len(self.names)

    def require(self, wanted: Iterable[str], found: Container[str]) -> None:
        missing = [name for name in wanted if name not in found]
        if missing:
            raise DataError(f"{self.folder} lacks {listed(missing)}; add or delete what is there to fetch it all")

    def digest(self) -> str:
        """Of the content and of each name below the folder: neither copying nor moving changes it."""
        digest = sha256()
        for path in self.paths:
            try:
                with path.open("rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    digest.update(f"{path.relative_to(self.folder).as_posix()}\0{size}\0".encode())
                    while piece := file.read(PIECE):
                        digest.update(piece)
            except OSError as error:
                raise unreadable(path, error) from None
        return digest.hexdigest()


class NothingThere(DataError):
    """A folder of the dataset's name without any file of it."""


def archive(stem: str) -> re.Pattern[str]:
    """The archives that a dataset may be packed in, by a pattern for what comes before the ending."""
    return re.compile(rf"(?:{stem})(?:{'|'.join(map(re.escape, ARCHIVES))})", re.IGNORECASE)


def is_archive(name: str) -> bool:
    return name.lower().endswith(ARCHIVES)


def find(root: Path, search_dirs: Sequence[str], files: re.Pattern[str], archives: re.Pattern[str]) -> Files | None:
    """Look in the folders where people keep a dataset, else among what lies in the root itself.

    Loose files go before an archive, because people unpack and keep both.
    """
    is_home = any(root.resolve().as_posix().endswith(f"/{home}") for home in search_dirs)
    try:
        places = [root / home for home in search_dirs if (root / home).is_dir()]
        for place in [*places, root]:
            entries = _scan(place, deep=place != root or is_home)
            chosen = [entry for entry in entries if files.search(entry.path)]
            packed = [entry for entry in chosen if entry.name.endswith(tuple(UNPACK))]
            if not chosen:
                chosen = packed = [entry for entry in entries if archives.fullmatch(entry.name)]
            if chosen:
                chosen.sort(key=attrgetter("path"))
                if packed:
                    chosen = _once(chosen, (*UNPACK, *ARCHIVES))
                return Files(place, [entry.path for entry in chosen], _fingerprint(place, chosen))
    except OSError as error:  # a folder that may not be read; links in a circle; a name too long
        raise DataError(f"{error.filename or root} cannot be read ({error.strerror})") from None
    if places:
        raise NothingThere(f"{places[0]} holds no file of the dataset; add them, or delete the folder to fetch them")
    return None


def _scan(folder: Path, deep: bool) -> list[os.DirEntry[str]]:
    """All files, without hidden ones: other programs' notes, and our own unfinished downloads."""
    files: list[os.DirEntry[str]] = []
    folders = [str(folder)] if folder.is_dir() else []
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name[0] == ".":
                    continue
                if entry.is_file():
                    files.append(entry)
                elif deep and entry.is_dir():
                    folders.append(entry.path)
    return files


def _once(entries: list[os.DirEntry[str]], endings: tuple[str, ...]) -> list[os.DirEntry[str]]:
    """Of a file and its packed twins, the first: x before x.gz, femnist.tar.gz before femnist.zip."""
    longest_first = sorted(endings, key=len, reverse=True)
    first: dict[str, os.DirEntry[str]] = {}
    for entry in entries:
        ending = next((ending for ending in longest_first if entry.name.lower().endswith(ending)), "")
        first.setdefault(entry.path[: len(entry.path) - len(ending)], entry)
    return list(first.values())


def _fingerprint(folder: Path, entries: Sequence[os.DirEntry[str]]) -> str:
    cut = len(str(folder))
    lines = [
        f"{entry.path[cut:]}|{(s := entry.stat()).st_size}|{s.st_mtime_ns}|{s.st_ctime_ns}|{s.st_ino}"
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
    except Exception as error:  # each archive module has its own ways to say that a file is damaged
        raise unreadable(path, error) from None


def _zip_members(path: Path, pattern: re.Pattern[str]) -> Members:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            is_link = stat.S_ISLNK(member.external_attr >> 16)
            match = _wanted(path, member.filename, is_link, pattern)
            if match and not member.is_dir():
                yield match, File(f"{path}/{member.filename}", archive.read(member))


def _tar_members(path: Path, pattern: re.Pattern[str]) -> Members:
    with tarfile.open(path, "r|*") as archive:  # as a stream: to jump about in a packed tar is to unpack it each time
        for member in archive:
            match = _wanted(path, member.name, member.issym() or member.islnk(), pattern)
            if match and member.isfile():
                file = archive.extractfile(member)
                assert file is not None
                yield match, File(f"{path}/{member.name}", file.read())


def _wanted(path: Path, member: str, is_link: bool, pattern: re.Pattern[str]) -> re.Match[str] | None:
    inside = PurePosixPath(member)
    if is_link or inside.is_absolute() or ".." in inside.parts:
        # No official archive has such members, and whoever unpacked this one by hand would regret it.
        kind = "is a link" if is_link else "would be written outside its folder"
        raise DataError(f"{path} is not safe: its member {member} {kind}; get the archive from its official address")
    hidden = inside.name.startswith(".") or "__MACOSX" in inside.parts
    return None if hidden else pattern.search(member)
