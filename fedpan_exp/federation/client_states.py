"""What clients keep between rounds: flat CPU vectors, in memory or on disk.

The changes of a round are applied when it has ended, so that an interrupted round leaves no trace. A file, once
written, never changes: checkpoints rely on the files they name.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from safetensors.torch import load_file, save_file
from torch import Tensor

from fedpan_exp.system.atomic_io import atomic_write, flush_to_disk

ClientState = dict[str, Tensor]


class ClientStates:
    """One state per client. With `on_disk`, memory does not grow with the number of clients seen."""

    def __init__(self, folder: Path | None = None, on_disk: bool = False):
        assert folder or not on_disk, "files need a folder"
        self.folder, self._on_disk = folder or Path(), on_disk
        self._in_memory: dict[int, ClientState] = {}
        self._files: dict[int, str] = {}  # client -> the file with its newest state
        self._pending: dict[int, ClientState | str] = {}  # changes of the current round
        self._needed: set[str] = set()  # files that checkpoints name
        self._flushed: set[str] = set()

    def __getitem__(self, k: int) -> ClientState:
        """Empty for a client that has not trained yet. A file is memory-mapped, not read as a whole."""
        if k in self._in_memory:
            return self._in_memory[k]
        return load_file(self.folder / self._files[k]) if k in self._files else {}

    def __setitem__(self, k: int, state: ClientState) -> None:
        """Change a state; readable when the transaction has ended."""
        self._pending[k] = self._write(k, state) if self._on_disk else state

    def clients(self) -> list[int]:
        return sorted({*self._in_memory, *self._files})

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Apply the changes made in this context when it ends, or none of them if it fails."""
        try:
            yield
        except BaseException:
            self._pending = {}
            raise
        self._commit()

    def _commit(self) -> None:
        for k, new in self._pending.items():
            old = self._files.pop(k, None)
            if isinstance(new, str):
                self._files[k] = new
            else:
                self._in_memory[k] = new
            if old and old not in self._needed:
                (self.folder / old).unlink()
        self._pending = {}

    def export(self, clients: Iterable[int]) -> dict[int, ClientState | str]:
        """What another process needs to train these clients: their vectors, or the names of their files."""
        known = [k for k in clients if k in self._in_memory or k in self._files]
        return {k: self._files[k] if self._on_disk else self[k] for k in known}

    def load(self, exported: Mapping[int, ClientState | str]) -> None:
        """Replace everything by what another process exported."""
        self._pending = {}
        self._in_memory = {k: state for k, state in exported.items() if not isinstance(state, str)}
        self._files = {k: name for k, name in exported.items() if isinstance(name, str)}

    def pending(self) -> dict[int, ClientState | str]:
        """The changes of the current round."""
        return self._pending

    def apply(self, pending: Mapping[int, ClientState | str]) -> None:
        """Add changes that another process made in the current round."""
        self._pending.update(pending)

    def write_files(self) -> dict[int, str]:
        """Write a file for each client that has none, flush all of them to disk, and return their names."""
        for k in self._in_memory.keys() - self._files.keys():
            self._files[k] = self._write(k, self._in_memory[k])
        for name in {*self._files.values()} - self._flushed:
            flush_to_disk(self.folder / name)
            self._flushed.add(name)
        if self._files:
            flush_to_disk(self.folder)
        return dict(self._files)

    def delete_copies(self) -> None:
        """Delete files of states that are in memory too and that no checkpoint names, to make room on a full disk."""
        for k in self._in_memory.keys() & self._files.keys():
            if self._files[k] not in self._needed:
                (self.folder / self._files.pop(k)).unlink()

    def restore(self, files: Mapping[int, str]) -> None:
        """Start from the states that `write_files()` named; for a new object only."""
        self._files = dict(files)

    def prune(self, names: Iterable[str]) -> None:
        """Delete all files except `names`, which checkpoints need, and each client's newest."""
        self._needed = set(names)
        if self.folder.is_dir():
            for name in {path.name for path in self.folder.iterdir()} - self._needed - {*self._files.values()}:
                (self.folder / name).unlink()

    def _write(self, k: int, state: ClientState) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{k}-{uuid4().hex}.safetensors"  # never used before, by any process
        atomic_write(self.folder / name, lambda path: save_file(state, path), flush=False)
        return name
