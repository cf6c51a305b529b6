"""What is there of each dataset: where, how much, whether it is the official one, and where to get it."""

from dataclasses import dataclass
from pathlib import Path

from fedpan_exp.data.dataset import BUILT_IN, SOURCES
from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.data.source import Source
from fedpan_exp.data.store import OFFICIAL, SOUND, locate
from fedpan_exp.system.errors import DataError


@dataclass
class Item:
    dataset: str
    state: str  # complete | missing | wrong
    wrong: str = ""  # what
    where: str = ""
    images: str = ""
    megabytes: float = 0.0
    checksum: str = ""
    get: str = ""
    licence: str = ""


def inventory(root: Path, names: list[str]) -> list[Item]:
    return [_built_in(name) if name in BUILT_IN else _look(SOURCES[name], root) for name in names]


def _built_in(name: str) -> Item:
    data = BUILT_IN[name]()
    found = {"where": "scikit-learn", "images": _count(data), "checksum": "as installed"}
    return Item(name, "complete", **found, megabytes=_megabytes(data), licence="CC BY 4.0")


def _look(source: Source, root: Path) -> Item:
    fetched = source.registries or source.official()
    get = f"python -m fedpan_exp.data get {source.name}, or from {source.page}" if fetched else source.page
    item = Item(source.name, "missing", get=get, licence=source.licence)
    try:
        located = locate(source, root)
    except DataError as error:  # found, but cut off, incomplete or of another kind
        item.state, item.wrong = "wrong", str(error)
        return item
    if located is not None:
        item.where, item.images, item.megabytes = str(located.place), _count(located.data), _megabytes(located.data)
        item.state, item.checksum = "complete", located.verdict
        wrong = "" if located.verdict in SOUND else f"not the official one: {located.verdict}"
        if located.verdict == OFFICIAL and source.digest and located.data.digest() != source.digest:
            wrong = "the tensors have changed since they were kept; delete the file"
        if wrong:
            item.state, item.checksum, item.wrong = "wrong", "differs", wrong
    return item


def _count(data: DatasetSplits) -> str:
    return (
        f"{len(data.train):,} by {len(data.users):,} users"
        if data.users
        else f"{len(data.train):,} + {len(data.test):,}"
    )


def _megabytes(data: DatasetSplits) -> float:
    return sum(tensor.nbytes for tensor in data.tensors().values()) / 1e6
