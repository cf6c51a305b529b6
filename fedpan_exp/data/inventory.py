"""State of each dataset: its location and size, whether it is the official one, and how to get it."""

from dataclasses import dataclass
from pathlib import Path

from fedpan_exp.data.dataset import BUILT_IN, SOURCES
from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.data.source import Source
from fedpan_exp.data.store import ACCEPTED, OFFICIAL, locate
from fedpan_exp.system.errors import DataError


@dataclass
class Item:
    """The fields are the keys of `list --json`."""

    dataset: str
    state: str  # complete | missing | wrong
    wrong: str = ""  # what is wrong
    where: str = ""
    images: str = ""
    megabytes: float = 0.0
    checksum: str = ""
    get: str = ""
    licence: str = ""


def inventory(root: Path, names: list[str]) -> list[Item]:
    return [_built_in(name) if name in BUILT_IN else _inspect(SOURCES[name], root) for name in names]


def _built_in(name: str) -> Item:
    data = BUILT_IN[name]()
    return Item(
        name,
        "complete",
        where="scikit-learn",
        images=_describe_counts(data),
        megabytes=_megabytes(data),
        checksum="as installed",
        licence="CC BY 4.0",
    )


def _inspect(source: Source, root: Path) -> Item:
    downloadable = source.registries or source.downloads()
    get = f"python -m fedpan_exp.data get {source.name}, or from {source.page}" if downloadable else source.page
    item = Item(source.name, "missing", get=get, licence=source.licence)
    try:
        located = locate(source, root)
    except DataError as error:  # the files are incomplete or cannot be read
        item.state, item.wrong = "wrong", str(error)
        return item
    if located is not None:
        item.where, item.megabytes = str(located.path), _megabytes(located.data)
        item.images = _describe_counts(located.data)
        item.state, item.checksum = "complete", located.verdict
        wrong = "" if located.verdict in ACCEPTED else f"not the official one: {located.verdict}"
        if located.verdict == OFFICIAL and source.digest and located.data.digest() != source.digest:
            wrong = "the tensors have changed since they were saved; delete the file"
        if wrong:
            item.state, item.checksum, item.wrong = "wrong", "differs", wrong
    return item


def _describe_counts(data: DatasetSplits) -> str:
    return (
        f"{len(data.train):,} by {len(data.users):,} users"
        if data.users
        else f"{len(data.train):,} + {len(data.test):,}"
    )


def _megabytes(data: DatasetSplits) -> float:
    return sum(tensor.nbytes for tensor in data.tensors().values()) / 1e6
