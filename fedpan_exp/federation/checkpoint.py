"""Checkpoints: the complete state of a run between two rounds, verified by checksums.

Each checkpoint is a JSON file that names its tensor files with their checksums. It is written last, and the previous
checkpoint is deleted only after that. Nothing is pickled, so that a checkpoint from a stranger cannot run code.
"""

import json
import re
import shutil
import time
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fedpan_exp.algorithms import ServerState
from fedpan_exp.federation.client_states import ClientStates
from fedpan_exp.system.atomic_io import WriteError, atomic_write, flush_to_disk, read_json, write_json
from fedpan_exp.system.console import warn
from fedpan_exp.system.errors import first_line, require

FORMAT = 1
CLIENT_FILE = re.compile(r"\d+-[0-9a-f]{32}\.safetensors")
KEPT_CHECKPOINTS = 2  # the newest, and the one before it in case the newest is damaged
KEPT = "kept"  # subfolder of a run with the checkpoints that stay
STATE = "memory/"  # prefix of the server's own vectors in format 1


@dataclass
class CheckpointSettings:
    """How much work a crash may cost: rounds or seconds, whichever comes first."""

    every: int = 10  # rounds; 0: never
    seconds: float = 60.0
    keep: list[int] = field(default_factory=list)  # rounds whose checkpoints stay after the run

    def __post_init__(self) -> None:
        require(all(round_idx >= 1 for round_idx in self.keep), "checkpoint.keep", "rounds from 1", self.keep)
        require(self.every >= 0, "checkpoint.every", "at least 0", self.every)
        require(self.seconds > 0, "checkpoint.seconds", "above 0", self.seconds)


@dataclass
class Checkpoint:
    round_idx: int
    server: ServerState
    clients: dict[int, str]  # client -> the file of its state
    records: int  # bytes of records that belong to it


class Checkpoints:
    """The checkpoints of one run, in one folder."""

    def __init__(self, folder: Path, run: str, settings: CheckpointSettings):
        self._folder, self._run, self._settings = folder, run, settings
        self._digests: dict[str, str] = {}
        self._usable: list[int] = []  # rounds, the newest last
        self._last_round, self._last_time = 0, time.monotonic()

    @property
    def states_folder(self) -> Path:
        return self._folder / "clients"

    def is_due(self, round_idx: int) -> bool:
        if not self._settings.every:
            return False
        rounds, seconds = round_idx - self._last_round, time.monotonic() - self._last_time
        return rounds >= self._settings.every or seconds >= self._settings.seconds

    def save(self, round_idx: int, server: ServerState, states: ClientStates, records: int) -> None:
        """Save a checkpoint. If the disk fails, raise WriteError; the previous checkpoint remains."""
        if round_idx in self._usable:
            return
        self._last_round, self._last_time = round_idx, time.monotonic()
        try:
            self._save(round_idx, server, states, records)
        except OSError as error:
            (self._folder / f"{_name(round_idx)}.safetensors").unlink(missing_ok=True)
            states.delete_copies()
            remaining = f"; that of round {self._usable[-1]} remains" if self._usable else "; the run has none yet"
            raise WriteError.of(f"the checkpoint of round {round_idx}", error, remaining) from None

    def restore_latest(self, states: ClientStates, records: int, device: Any = "cpu") -> Checkpoint | None:
        """Load the newest intact checkpoint whose records are complete, and restore the clients' states.

        Others are ignored with a warning.
        """
        manifests = sorted(self._folder.glob("[0-9]*.json"))  # not the temporary ones a crash leaves behind
        while manifests:
            path = manifests.pop()
            try:
                checkpoint = self._load(path, device)
                if checkpoint.records > records:
                    raise ValueError("records that belong to it are missing")
            except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
                warn(f"ignoring the checkpoint {path}: {first_line(error)}")
                continue
            self._usable = [int(path.stem) for path in (*manifests, path)]
            self._last_round = checkpoint.round_idx
            states.restore(checkpoint.clients)
            self._prune_states(states)
            return checkpoint
        return None

    def keep(self, round_idx: int, folder: Path) -> None:
        """Copy the checkpoint of a round to another folder, its manifest last. If the disk fails, warn."""
        manifest = f"{_name(round_idx)}.json"
        try:
            (folder / "clients").mkdir(parents=True, exist_ok=True)
            for file in (*read_json(self._folder / manifest)["files"], manifest):
                atomic_write(folder / file, partial(shutil.copyfile, self._folder / file))
        except (OSError, KeyError) as error:
            warn(f"the checkpoint of round {round_idx} could not be kept ({first_line(error)})")

    @property
    def last_saved(self) -> int | None:
        """The round after which the run would resume."""
        return self._usable[-1] if self._usable else None

    def rounds(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob("[0-9]*.json"))

    def load(self, round_idx: int, device: Any = "cpu") -> Checkpoint:
        """Load the checkpoint of a round; raise OSError, ValueError or KeyError if it is not intact."""
        return self._load(self._folder / f"{_name(round_idx)}.json", device)

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _save(self, round_idx: int, server: ServerState, states: ClientStates, records: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        clients = states.write_files()
        tensors = {"weights": server.weights, "buffers": server.buffers}
        tensors |= {f"{STATE}{name}": vector for name, vector in server.state.items() if vector is not None}
        copies = {name: vector.detach().cpu().contiguous() for name, vector in tensors.items()}
        own = f"{_name(round_idx)}.safetensors"
        atomic_write(self._folder / own, lambda path: save_file(copies, path))
        self._digests.pop(own, None)  # a damaged file may have had this name
        files = [own, *(f"clients/{name}" for name in clients.values())]
        content = {
            "format": FORMAT,
            "run": self._run,
            "round": round_idx,
            "records": records,
            "participants": server.clients,
            "clients": {str(k): name for k, name in clients.items()},
            "files": {file: self._digest(file) for file in files},
        }
        write_json(self._folder / f"{_name(round_idx)}.json", {**content, "digest": _digest_of(content)})
        flush_to_disk(self._folder.parent)
        self._usable = [*self._usable, round_idx][-KEPT_CHECKPOINTS:]
        self._prune()
        self._prune_states(states)

    def _load(self, path: Path, device: Any) -> Checkpoint:
        content = read_json(path)
        if content.pop("digest", None) != _digest_of(content):
            raise ValueError("it is damaged")
        if content["format"] != FORMAT:
            raise ValueError(f"it is of format {content['format']}, not {FORMAT}")
        if content["run"] != self._run:
            raise ValueError(f"it belongs to {content['run']}")
        for name in content["clients"].values():
            if not CLIENT_FILE.fullmatch(name) or f"clients/{name}" not in content["files"]:
                raise ValueError(f"it names {name}, which does not belong to it")
        for file, expected in content["files"].items():
            if self._digest(file) != expected:
                raise ValueError(f"{file} is damaged")
        tensors = load_file(path.with_suffix(".safetensors"), device=str(device))
        state = {name.removeprefix(STATE): vector for name, vector in tensors.items() if name.startswith(STATE)}
        server = ServerState(tensors["weights"], tensors["buffers"], content["participants"], state)
        clients = {int(k): name for k, name in content["clients"].items()}
        return Checkpoint(content["round"], server, clients, content["records"])

    def _digest(self, file: str) -> str:
        """The checksum of a file, computed once: files do not change while this process runs."""
        if file not in self._digests:
            with (self._folder / file).open("rb") as opened:
                self._digests[file] = file_digest(opened, lambda: blake2b(digest_size=16)).hexdigest()
        return self._digests[file]

    def _prune(self) -> None:
        """Delete all checkpoints but the usable ones, also those that were ignored."""
        usable = {_name(round_idx) for round_idx in self._usable}
        for path in (*self._folder.glob("*.json"), *self._folder.glob("*.safetensors")):
            if path.stem not in usable:
                path.unlink()

    def _prune_states(self, states: ClientStates) -> None:
        """Delete client states that no usable checkpoint names."""
        manifests = (read_json(self._folder / f"{_name(round_idx)}.json") for round_idx in self._usable)
        states.prune(name for manifest in manifests for name in manifest.get("clients", {}).values())


def _name(round_idx: int) -> str:
    return f"{round_idx:07}"


def _digest_of(content: dict[str, Any]) -> str:
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
