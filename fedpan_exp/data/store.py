"""Load a dataset from its root folder, or download it once and verify it, also when several processes ask for it.

Decoded tensors are cached in one file next to the originals, with a fingerprint of the files they were read from. While
the fingerprint matches, later starts read the cache alone.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from fedpan_exp.data.download import checksum
from fedpan_exp.data.files import EmptyDatasetFolder, Files
from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.data.source import Source
from fedpan_exp.system.console import console, print_status, warn
from fedpan_exp.system.errors import DataError, first_line

FORMAT = "1"  # of the cached tensors; change it when the same files are decoded differently
OFFICIAL, NOT_CHECKED = ACCEPTED = ("official", "not checked")


@dataclass(frozen=True)
class LocatedDataset:
    data: DatasetSplits
    path: Path  # the folder of its files, or the file of its tensors
    verdict: str  # one of ACCEPTED (not checked: there is no reference to compare with), or what is wrong


def load_or_download(source: Source, root: Path, verify: bool = True) -> DatasetSplits:
    """Load the dataset from its files in the root, else from downloaded tensors; download it if there are none."""
    located = locate(source, root)
    if located is None:
        _download_once(source, root)
        located = _load_downloaded(source, downloaded_path(source, root))
    if verify and located.verdict not in ACCEPTED:
        raise DataError(
            f"{located.path} is not the official {source.name}: {located.verdict}; replace it, delete it to download "
            "the dataset, or use it as it is with dataset.verify=false"
        )
    return located.data


def has_files(source: Source, root: Path) -> bool:
    """Whether `locate` would find the dataset; nothing is read."""
    try:
        return downloaded_path(source, root).exists() or source.find_files(root) is not None
    except DataError:
        return False


def locate(source: Source, root: Path) -> LocatedDataset | None:
    """Load the dataset from its files in the root, else from downloaded tensors; None if there are neither."""
    downloaded = downloaded_path(source, root)
    try:
        files = source.find_files(root)
    except EmptyDatasetFolder:
        if not downloaded.exists():
            raise
        files = None
    if files is not None:
        return _load_files(source, root, files)
    return _load_downloaded(source, downloaded) if downloaded.exists() else None


def load_cached(name: str, root: Path, fingerprint: str, read: Callable[[], DatasetSplits]) -> DatasetSplits:
    """Load the tensors that were read when the source had this fingerprint, or read and cache them."""
    current = {"format": FORMAT, "stamp": fingerprint}
    paths = _cache_paths(name, root)
    for path in paths:
        if current.items() <= _metadata(path).items():
            return _load(path)
    data = read()
    _save_to_first_writable(paths, data, current)
    return data


def downloaded_path(source: Source, root: Path) -> Path:
    return root / f"{source.name}.safetensors"


def _cache_paths(name: str, root: Path) -> list[Path]:
    """Caches of decoded tensors: next to the files, then in the user's cache folder for a read-only root."""
    name, root_id = f"{name}.decoded.safetensors", sha256(str(root.resolve()).encode()).hexdigest()[:8]
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [root / name, user_cache / "fedpan_exp" / f"{root_id}-{name}"]


def _decode(source: Source, files: Files) -> DatasetSplits:
    data = source.read(files)
    for part in (data.train, data.test):
        if part.x.dtype != torch.uint8 or part.x.dim() != 4 or len(part.x) != len(part.y):
            content = f"{len(part.y):,} labels for {'x'.join(map(str, part.x.shape))} {part.x.dtype} pixels"
            raise DataError(f"{files.folder} has {content}; replace its files")
    return data


def _verify(source: Source, data: DatasetSplits, files: Files | None = None) -> str:
    """Compare with the official counts and checksums; return a verdict as in LocatedDataset."""
    counts = (len(data.train), len(data.test))
    if source.counts and counts != source.counts:
        return "{:,} training and {:,} test images, not {:,} and {:,}".format(*counts, *source.counts)
    if source.digest:
        return OFFICIAL if data.digest() == source.digest else "images or labels differ"
    md5s = {file.name: file.md5 for file in source.downloads()}
    checked = [path for path in files.paths if path.name in md5s] if files else []
    for path in checked:
        if (md5 := checksum(path)) != md5s[path.name]:
            return f"{path.name} has md5 {md5}, not {md5s[path.name]}"
    return OFFICIAL if files and len(checked) == len(files.paths) else NOT_CHECKED


def _load_files(source: Source, root: Path, files: Files) -> LocatedDataset:
    """Load the cached tensors, or decode the files and cache the result if there are none or the files changed."""
    current = {"format": FORMAT, "stamp": files.fingerprint}
    cache_paths = _cache_paths(source.name, root)

    def up_to_date() -> LocatedDataset | None:
        for path in cache_paths:
            metadata = _metadata(path)
            if current.items() <= metadata.items():
                return LocatedDataset(_load(path), files.folder, metadata["verdict"])
        return None

    if located := up_to_date():
        return located
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_exclusive(source, root))
        except OSError:  # a read-only root cannot be locked: every user decodes into a cache of their own
            cache_paths = cache_paths[1:]
        if located := up_to_date():  # another process was faster
            return located
        content = {"format": FORMAT, "content": files.digest()}
        for path in cache_paths:
            metadata = _metadata(path)
            if content.items() <= metadata.items():  # the files were only copied, moved or touched
                data, verdict = _load(path), metadata["verdict"]
                break
        else:
            data = _decode(source, files)
            verdict = _verify(source, data, files)
        _save_to_first_writable(cache_paths, data, current | content | {"verdict": verdict})
        return LocatedDataset(data, files.folder, verdict)


def _save_to_first_writable(paths: list[Path], data: DatasetSplits, metadata: dict[str, str]) -> None:
    problems = []
    for path in paths:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{path.stem}-", dir=path.parent) as scratch:
                return _save(path, data, metadata, Path(scratch))
        except (OSError, SafetensorError) as error:
            problems.append(f"{path}: {first_line(error)}")
    warn(f"the decoded images could not be saved, so the next start decodes them again ({'; '.join(problems)})")


def _download_once(source: Source, root: Path) -> None:
    """Download and save the dataset; of several processes, one downloads and the others wait for it."""
    path = downloaded_path(source, root)
    try:
        if not root.exists() and (source.registries or source.downloads()):
            size = f" ({source.megabytes:,} MB)" if source.megabytes else ""
            print_status("data", f"{root} does not exist: it is created, and {source.name}{size} downloaded into it")
        root.mkdir(parents=True, exist_ok=True)
        with _exclusive(source, root):
            if path.exists():
                return
            with tempfile.TemporaryDirectory(prefix=f".{source.name}-", dir=root) as scratch:
                data, origin = _download(source, Path(scratch).resolve(), root)
                _save(path, data, {"origin": origin, "verdict": OFFICIAL}, Path(scratch))
                shutil.rmtree(_download_folder(source, root), ignore_errors=True)
        console.print(f"{source.name} is in {path}", markup=False)
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"dataset.root must be a folder that can be written, got {root} ({first_line(error)})"
        ) from None


def _download(source: Source, scratch: Path, root: Path) -> tuple[DatasetSplits, str]:
    """Try the official address, then the registries; return the data and the name of its origin."""
    origins = dict(source.registries)
    if source.downloads():
        origins = {"official address": lambda _: _download_official(source, root), **origins}
    failures = []
    for origin, fetch in origins.items():
        folder = scratch / origin
        folder.mkdir()
        try:
            data = fetch(folder)
            if (verdict := _verify(source, data)) not in ACCEPTED:
                raise DataError(verdict)
            return data, origin
        except Exception as error:  # whatever is wrong with one origin, try the next
            failures.append(f"{origin}: {first_line(error)}")
    reason = f"could not be downloaded ({'; '.join(failures)})" if failures else "cannot be downloaded automatically"
    raise DataError(
        f"dataset={source.name} is not in dataset.root={root} and {reason}; put {source.manual_instructions()}"
    )


def _download_official(source: Source, root: Path) -> DatasetSplits:
    """Files stay in the download folder until the tensors are saved, so that an interrupted download can be resumed."""
    folder = _download_folder(source, root)
    _refuse_link(folder)
    folder.mkdir(exist_ok=True)
    for file in source.downloads():
        file.fetch_to(folder)
    files = source.find_files(folder)
    assert files is not None
    return _decode(source, files)


def _download_folder(source: Source, root: Path) -> Path:
    return root / f".{source.name}-download"


def _save(path: Path, data: DatasetSplits, metadata: dict[str, str], scratch: Path) -> None:
    """Write to the scratch folder first, then rename: `path` is never half written."""
    _refuse_link(path)
    temporary = scratch / path.name
    save_file(data.tensors(), temporary, metadata | data.metadata())
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.chmod(0o644)  # readable by other users of the machine
    os.replace(temporary, path)


def _load_downloaded(source: Source, path: Path) -> LocatedDataset:
    data, metadata = _load(path), _metadata(path)
    return LocatedDataset(data, path, metadata.get("verdict") or _verify(source, data))


def _load(path: Path) -> DatasetSplits:
    """Memory-mapped, so that several processes share the memory."""
    try:
        return DatasetSplits.from_tensors(load_file(path), _metadata(path))
    except (SafetensorError, KeyError, OSError) as error:
        raise DataError(f"{path} cannot be read ({first_line(error)}); delete it to get the dataset again") from None


def _metadata(path: Path) -> dict[str, str]:
    """Metadata saved with the tensors; empty if there is no readable file."""
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except (OSError, SafetensorError):
        return {}


@contextlib.contextmanager
def _exclusive(source: Source, root: Path) -> Iterator[None]:
    """Allow one process at a time; print a line when waiting for another one."""
    path = root / f".{source.name}.lock"
    _refuse_link(path)
    lock = FileLock(path, mode=0o666)  # other users of the machine take the same lock
    try:
        lock.acquire(timeout=0.1)
    except Timeout:
        console.print(f"waiting for another process that loads {source.name}", markup=False)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise DataError(f"{path} is a link, and writing to it would write outside {path.parent}; delete the link")
