"""What clients remember between their visits: flat CPU vectors, in memory or on disk.

What a round changes counts when the round has ended, so that an interrupted one leaves no trace. A file, once written,
never changes: a checkpoint may rely on those it names.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from uuid import uuid4

from safetensors.torch import load_file, save_file
from torch import Tensor

from fedpan_exp.system.atomic_io import atomic_write, flush_to_disk

ClientState = dict[str, Tensor]


class ClientStates:
    """By client. Held in memory, or `on_disk`: then memory does not grow with the clients seen."""

    def __init__(self, folder: Path | None = None, on_disk: bool = False):
        assert folder or not on_disk, "files need a folder"
        self.folder, self._on_disk = folder or Path(), on_disk
        self._in_memory: dict[int, ClientState] = {}
        self._files: dict[int, str] = {}  # those that hold a client's newest
        self._pending: dict[int, ClientState | str] = {}  # of the round under way
        self._needed: set[str] = set()  # by checkpoints
        self._flushed: set[str] = set()

    def __getitem__(self, k: int) -> ClientState:
        """Empty for a client that was never visited; a file is mapped, not read whole."""
        if k in self._in_memory:
            return self._in_memory[k]
        return load_file(self.folder / self._files[k]) if k in self._files else {}

    def __setitem__(self, k: int, state: ClientState) -> None:
        self._pending[k] = self._write(k, state) if self._on_disk else state

    def clients(self) -> list[int]:
        return sorted({*self._in_memory, *self._files})

    def commit(self) -> None:
        """The round has ended."""
        for k, new in self._pending.items():
            old = self._files.pop(k, None)
            if isinstance(new, str):
                self._files[k] = new
            else:
                self._in_memory[k] = new
            if old and old not in self._needed:
                (self.folder / old).unlink()
        self._pending = {}

    def roll_back(self) -> None:
        """The round will not end."""
        self._pending = {}

    def export(self, clients: Iterable[int]) -> dict[int, ClientState | str]:
        """What another process needs to stand in for these clients: vectors, or the names of the files they are in."""
        known = [k for k in clients if k in self._in_memory or k in self._files]
        return {k: self._files[k] if self._on_disk else self[k] for k in known}

    def load(self, exported: Mapping[int, ClientState | str]) -> None:
        """Stand in for the clients of another process, and for nobody else."""
        self._pending = {}
        self._in_memory = {k: state for k, state in exported.items() if not isinstance(state, str)}
        self._files = {k: name for k, name in exported.items() if isinstance(name, str)}

    def pending(self) -> dict[int, ClientState | str]:
        """Of the round under way."""
        return self._pending

    def apply(self, pending: Mapping[int, ClientState | str]) -> None:
        """As another process has changed them, in the round under way."""
        self._pending.update(pending)

    def files(self) -> dict[int, str]:
        """A file for each client, safely on disk."""
        for k in self._in_memory.keys() - self._files.keys():
            self._files[k] = self._write(k, self._in_memory[k])
        for name in {*self._files.values()} - self._flushed:
            flush_to_disk(self.folder / name)
            self._flushed.add(name)
        if self._files:
            flush_to_disk(self.folder)
        return dict(self._files)

    def restore(self, files: Mapping[int, str]) -> None:
        """As it was when these files were asked for."""
        self._files = dict(files)

    def prune(self, names: Iterable[str]) -> None:
        """Delete every file that neither the checkpoints with these names nor the clients need."""
        self._needed = set(names)
        if self.folder.is_dir():
            for name in {path.name for path in self.folder.iterdir()} - self._needed - {*self._files.values()}:
                (self.folder / name).unlink()

    def _write(self, k: int, state: ClientState) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{k}-{uuid4().hex}.safetensors"  # never used before, by no process
        atomic_write(self.folder / name, lambda path: save_file(state, path), flush=False)
        return name
