"""Which logs a run is told to: the settings of the group `logger`."""

from dataclasses import dataclass
from importlib.util import find_spec

from fedpan_exp.system.errors import ConfigError
from fedpan_exp.tracking.logs import CsvLog, Log, Run, TensorBoardLog
from fedpan_exp.tracking.wandb_settings import WandbSettings


@dataclass
class LoggerSettings:
    wandb: WandbSettings | None = None
    tensorboard: bool = False
    csv: bool = False

    def __post_init__(self) -> None:
        if self.tensorboard and find_spec("tensorboard") is None:
            raise ConfigError("logger=tensorboard must have its package: pip install tensorboard")

    def open(self, run: Run) -> list[Log]:
        logs: list[Log] = []
        if self.csv:
            logs.append(CsvLog(run))
        if self.tensorboard:
            logs.append(TensorBoardLog(run))
        if self.wandb:
            from fedpan_exp.tracking.wandb_log import WandbLog  # slow to import, and only needed here

            logs.append(WandbLog(self.wandb, run))
        return logs
