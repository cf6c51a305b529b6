"""Settings of the config group `logger`: which loggers a run uses."""

from dataclasses import dataclass
from importlib.util import find_spec

from fedpan_exp.system.errors import ConfigError
from fedpan_exp.tracking.logs import CsvLogger, MetricLogger, RunInfo, TensorBoardLogger
from fedpan_exp.tracking.wandb_settings import WandbSettings


@dataclass
class LoggerSettings:
    wandb: WandbSettings | None = None
    tensorboard: bool = False  # event files in the run folder
    csv: bool = False  # metrics.csv in the run folder

    def __post_init__(self) -> None:
        if self.tensorboard and find_spec("tensorboard") is None:
            raise ConfigError("logger=tensorboard needs its package: pip install tensorboard")

    def open(self, run: RunInfo) -> list[MetricLogger]:
        loggers: list[MetricLogger] = []
        if self.csv:
            loggers.append(CsvLogger(run))
        if self.tensorboard:
            loggers.append(TensorBoardLogger(run))
        if self.wandb and self.wandb.effective_mode() != "disabled":
            from fedpan_exp.tracking.wandb_log import WandbLogger  # slow to import

            loggers.append(WandbLogger(self.wandb, run))
        return loggers
