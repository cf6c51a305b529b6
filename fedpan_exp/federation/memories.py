"""What clients remember between their visits: flat CPU vectors, in memory or on disk."""

import shutil
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

Memory = dict[str, Tensor]
Memories = MutableMapping[int, Memory]  # only clients seen so far have an entry


class DiskMemories(Memories):
    """A file a client, memory-mapped when it is read: memory does not grow with the clients seen."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.clear()  # what an earlier run left is not ours

    def __getitem__(self, k: int) -> Memory:
        if k not in self:
            raise KeyError(k)
        return load_file(self._file(k))

    def __setitem__(self, k: int, memory: Memory) -> None:
        """The new file takes the old one's name, so that a mapping of the old one stays whole."""
        self.folder.mkdir(exist_ok=True)
        temporary = self._file(k).with_suffix(".new")
        save_file(memory, temporary)
        temporary.replace(self._file(k))

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def __delitem__(self, k: int) -> None:
        self._file(k).unlink()

    def __contains__(self, k: object) -> bool:
        return isinstance(k, int) and self._file(k).exists()

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(int(path.stem) for path in self.folder.glob("*.safetensors")))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _file(self, k: int) -> Path:
        return self.folder / f"{k}.safetensors"
