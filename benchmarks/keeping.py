"""What it costs not to lose a run: records, checkpoints every 10 rounds and offline W&B, as a share of the rounds."""

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
class Cost:
    rounds: float  # seconds
    records: float
    checkpoints: float

    @property
    def share(self) -> float:
        return (self.records + self.checkpoints) / self.rounds


def cost_of_keeping(*overrides: str, H: int = 20) -> Cost:
    """The parts of the study `federate`, each timed; W&B's own process works beside them on another core."""
    words = [*overrides, f"fl_scene.H={H}", "logger=wandb", "logger.wandb.mode=offline", "checkpoint.every=10"]
    with tempfile.TemporaryDirectory() as folder, initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("config", [*words, f"runs={folder}", "checkpoint.seconds=1e9"])
        setting, settings = config.read(cfg), yaml.safe_load(OmegaConf.to_yaml(cfg, resolve=True))
        task = make_task(setting, set_up(setting))
        record = Record(settings, config.identify(setting, settings), setting.logger)
        cost = Cost(0.0, 0.0, 0.0)
        with record:
            record.start()
            checkpoints = Checkpoints(Path(record.folder) / CHECKPOINT, record.name, setting.checkpoint)
            states = ClientStates(checkpoints.states_folder, on_disk=task.scene.client_memory == "disk")
            for this in federate(task, make_executor(task, 1, states)):
                cost.rounds += this.seconds
                began = time.perf_counter()
                record.write(this.index, this.metrics())
                cost.records += time.perf_counter() - began
                began = time.perf_counter()
                if checkpoints.is_due(this.index):
                    checkpoints.save(this.index, this.server, states, record.metrics_bytes)
                cost.checkpoints += time.perf_counter() - began
        return cost
