"""fork=RUN@20: continue another run after one of the rounds that it kept, with other settings."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from safetensors.torch import load_file

from fedpan_exp.algorithms import FedAvg, ServerState
from fedpan_exp.federation.checkpoint import KEPT, Checkpoint, Checkpoints, CheckpointSettings
from fedpan_exp.federation.client_states import ClientStates
from fedpan_exp.federation.scene import Scene
from fedpan_exp.federation.task import FederatedTask
from fedpan_exp.system.errors import ConfigError, first_line, listed, require

# Settings of fl_scene that decide which samples a client has, with the seed.
SPLIT = (
    *("partition", "file", "K", "alpha", "shards", "samples", "min_samples", "small_clients"),
    *("local_test", "reserve"),
)


@dataclass(frozen=True)
class Fork:
    folder: Path  # of the parent
    round_idx: int

    @classmethod
    def find(cls, given: str, runs: Path) -> "Fork":
        """Find RUN@ROUND: a run folder, or its name in `runs`, and a round whose checkpoint it kept."""
        match = re.fullmatch(r"(.+)@0*([1-9]\d*)", given)
        require(match is not None, "fork", "a run and a round from 1 on, as in RUN@20", given)
        assert match
        folder = next((path for path in (runs / match[1], Path(match[1])) if (path / "config.yaml").is_file()), None)
        if folder is None:
            raise ConfigError(f"fork must name a run folder, or a run in runs={runs}, got {match[1]}")
        fork = cls(folder, int(match[2]))
        kept = fork._checkpoints.rounds()
        if fork.round_idx not in kept:
            rounds = f"it kept {listed(map(str, kept))}" if kept else "it kept none"
            raise ConfigError(
                f"fork must name a round that the run kept, got {fork.round_idx}, and {rounds}; "
                f"run it with checkpoint.keep=[{fork.round_idx}] and rerun=true"
            )
        return fork

    @property
    def _checkpoints(self) -> Checkpoints:
        return Checkpoints(self.folder / KEPT, self.folder.name, CheckpointSettings())

    @cached_property
    def _settings(self) -> dict[str, Any]:
        try:
            settings = yaml.safe_load((self.folder / "config.yaml").read_text(encoding="utf-8"))
            groups = {group: dict(settings[group]) for group in ("dataset", "model", "algorithm", "fl_scene")}
            return {**groups, "seed": settings["seed"]}
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
            raise self._not_intact("config.yaml is damaged") from None

    def _not_intact(self, reason: str) -> ConfigError:
        return ConfigError(f"fork must name an intact run, got {self.folder} ({reason})")

    def check(self, H: int, groups: Mapping[str, Mapping[str, Any]]) -> None:
        """Require more rounds than the parent's, and the parent's values of some settings, by group."""
        require(self.round_idx < H, "fl_scene.H", f"above {self.round_idx}, the round of the fork", H)
        for group, values in groups.items():
            for name, value in values.items():
                parents = self._settings[group].get(name, value)
                require(parents == value, f"{group}.{name}", f"{parents}, as in the run that is forked", value)

    def start(self, task: FederatedTask, states: ClientStates) -> Checkpoint:
        """The state after the round of the fork.

        What an algorithm keeps is taken over by the same algorithm with the same clients only, and with the same values
        of the settings that it depends on.
        """
        device = task.trainer.fabric.device
        try:
            checkpoint = self._checkpoints.load(self.round_idx, device)
        except (OSError, ValueError, KeyError) as error:
            raise self._not_intact(first_line(error)) from None
        if self.has_state_of(task.algorithm, task.scene, task.seed):
            with states.transaction():
                for k, file in checkpoint.clients.items():
                    states[k] = load_file(self.folder / KEPT / "clients" / file)
        else:
            weights, buffers = checkpoint.server.weights, checkpoint.server.buffers
            checkpoint.server = ServerState(weights, buffers, clients=len(task.clients))
            task.algorithm.init_server(checkpoint.server, task.trainer.net)
        return checkpoint

    def has_state_of(self, algorithm: FedAvg, scene: Scene, seed: int) -> bool:
        """Whether the parent has trained these clients with this algorithm, and what it kept means the same."""
        parents, split = self._settings["algorithm"], self._settings["fl_scene"]
        has_same_clients = self._settings["seed"] == seed and all(
            split.get(name, getattr(scene, name)) == getattr(scene, name) for name in SPLIT
        )
        has_same_rule = all(parents.get(k) == getattr(algorithm, k) for k in ("name", *algorithm.state_settings))
        return has_same_clients and has_same_rule

    def records(self, size: int) -> bytes:
        """The lines of metrics.jsonl until the fork."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_bytes()[:size] if path.is_file() else b""
        if len(lines) < size:
            raise self._not_intact(f"metrics.jsonl lacks records of the first {self.round_idx} rounds")
        return lines
