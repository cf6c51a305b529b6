"""Get a dataset: look in its root, else fetch it, once, whole and verified, whoever else is asking."""

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fedpan_exp.checks import DataError, first_line
from fedpan_exp.console import console
from fedpan_exp.data.images import Data


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from, and how to know that it is the right one."""

    name: str
    digest: str  # of the tensors: every way of getting the dataset must give the same
    read: Callable[[Path], Data | None]  # official files below a folder; None where there are none
    fetch: Mapping[str, Callable[[Path], Data]]  # ways to get it, in this order, each with a folder to work in
    by_hand: str  # which files to put where, with their checksums


def obtain(source: Source, root: Path) -> Data:
    """From the tensors kept by an earlier fetch, the official files, or the first way of fetching that works."""
    kept = root / f"{source.name}.safetensors"
    if not kept.exists():
        found = source.read(root)
        if found is not None:
            return _verified(found, source, str(root))
        _fetch_once(source, kept)
    try:
        return _verified(Data.of(load_file(kept)), source, str(kept))
    except (SafetensorError, KeyError, OSError) as error:
        raise DataError(f"{kept} cannot be read ({first_line(error)}); delete it to fetch it again") from None


def _fetch_once(source: Source, kept: Path) -> None:
    """Of several processes that ask at once, one fetches and the others wait for it."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(kept.parent / f".{source.name}.lock"):
            if not kept.exists():
                with tempfile.TemporaryDirectory(prefix=f".{source.name}-", dir=kept.parent) as scratch:
                    data = _first_that_works(source, Path(scratch).resolve(), kept.parent)
                    whole = Path(scratch) / kept.name
                    save_file(data.tensors(), whole)
                    whole.chmod(0o644)  # others on the machine may read it too
                    os.replace(whole, kept)
                console.print(f"{source.name} is in {kept}", markup=False)
    except OSError as error:
        raise DataError(
            f"dataset.root must be a folder that can be written, got {kept.parent} ({error.strerror or error})"
        ) from None


def _first_that_works(source: Source, scratch: Path, root: Path) -> Data:
    failures = []
    for way, fetch in source.fetch.items():
        folder = scratch / way
        folder.mkdir()
        try:
            return _verified(fetch(folder), source, way)
        except Exception as error:  # whatever goes wrong with one way, the next is tried
            failures.append(f"{way}: {first_line(error)}")
    raise DataError(
        f"dataset={source.name} is not in dataset.root={root} and could not be fetched ({'; '.join(failures)}); "
        f"put {source.by_hand} there"
    )


def _verified(data: Data, source: Source, origin: str) -> Data:
    if data.digest() != source.digest:
        raise DataError(f"the {source.name} images or labels in {origin} are not the official ones; delete them")
    return data
