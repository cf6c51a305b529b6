"""A dataset's source: where it comes from, how its files are named and read, how to know that it is the right one."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedpan_exp.data.download import Download
from fedpan_exp.data.files import Files, find
from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.system.errors import listed


@dataclass(frozen=True)
class Source:
    name: str
    search_dirs: tuple[str, ...]  # folders below the root where people keep it; the first is the one we advise
    files: re.Pattern[str]  # its files, by the end of their paths
    archives: re.Pattern[str]  # what they may be packed in
    read: Callable[[Files], DatasetSplits]
    page: str  # where to read about it and get it by hand
    licence: str
    counts: tuple[int, int] | None = None  # of training and test images; None: whatever is there
    users: int = 0  # that the paper counts, where it knows them
    digest: str | None = (
        None  # of the tensors, where we have held the whole set: every way of getting it gives the same
    )
    official: Callable[[], list[Download]] = list
    registries: Mapping[str, Callable[[Path], DatasetSplits]] = field(
        default_factory=dict
    )  # each with a folder to work in

    def find(self, root: Path) -> Files | None:
        return find(root, self.search_dirs, self.files, self.archives)

    def by_hand(self) -> str:
        """What to put where."""
        files = [f"{file.name} (md5 {file.md5})" for file in self.official()]
        return f"{listed(files) if files else 'its files'} from {self.page} in its folder {self.search_dirs[0]}"
