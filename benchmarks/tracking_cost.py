"""Cost of tracking a run, relative to its rounds: records, offline W&B and a checkpoint every 10 rounds."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from fedpan_exp import config
from fedpan_exp.federation import Checkpoints, ClientStates, federate, make_executor
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.paths import CONF
from fedpan_exp.tracking.record import CHECKPOINT, Record


@dataclass
class TrackingCost:
    rounds: float  # seconds
    records: float
    checkpoints: float

    @property
    def ratio(self) -> float:
        return (self.records + self.checkpoints) / self.rounds


def tracking_cost(*overrides: str, H: int = 20) -> TrackingCost:
    """Time the parts of the study `federate`; W&B's own process runs on another core meanwhile."""
    tracking = ("logger=wandb", "logger.wandb.mode=offline", "checkpoint.every=10", "checkpoint.seconds=1e9")
    with tempfile.TemporaryDirectory() as folder, initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("config", [*overrides, f"fl_scene.H={H}", *tracking, f"runs={folder}"])
        setting, settings = config.read(cfg), yaml.safe_load(OmegaConf.to_yaml(cfg, resolve=True))
        task = make_task(setting, set_up(setting))
        record = Record(settings, config.identify(setting, settings), setting.logger)
        cost = TrackingCost(0.0, 0.0, 0.0)
        with record:
            record.start()
            checkpoints = Checkpoints(Path(record.folder) / CHECKPOINT, record.name, setting.checkpoint)
            states = ClientStates(checkpoints.states_folder, on_disk=task.scene.client_memory == "disk")
            for round_ in federate(task, make_executor(task, 1, states)):
                cost.rounds += round_.seconds
                started = time.perf_counter()
                record.write(round_.index, round_.metrics())
                cost.records += time.perf_counter() - started
                started = time.perf_counter()
                if checkpoints.is_due(round_.index):
                    checkpoints.save(round_.index, round_.server, states, record.metrics_bytes)
                cost.checkpoints += time.perf_counter() - started
        return cost
