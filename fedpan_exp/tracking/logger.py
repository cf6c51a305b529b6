"""Settings of the config group `logger`: which loggers a run uses."""

from dataclasses import dataclass
from importlib.util import find_spec

from fedpan_exp.system.errors import ConfigError
from fedpan_exp.tracking.logs import CsvLogger, GuardedLogger, MetricLogger, RunInfo, TensorBoardLogger
from fedpan_exp.tracking.mlflow_log import MlflowLogger
from fedpan_exp.tracking.trackio_log import TrackioLogger
from fedpan_exp.tracking.wandb_settings import WandbSettings


@dataclass
class LoggerSettings:
    wandb: WandbSettings | None = None
    tensorboard: bool = False  # event files in the run folder
    csv: bool = False  # metrics.csv in the run folder
    trackio: str | None = None  # project
    mlflow: str | None = None  # experiment

    def __post_init__(self) -> None:
        for name in ("tensorboard", "trackio", "mlflow"):
            if getattr(self, name) and find_spec(name) is None:
                raise ConfigError(f'logger={name} needs its package: pip install "fedpan_exp[{name}]"')

    def open(self, run: RunInfo) -> list[MetricLogger]:
        loggers: list[MetricLogger] = []
        if self.csv:
            loggers.append(CsvLogger(run))
        if self.tensorboard:
            loggers.append(TensorBoardLogger(run))
        if project := self.trackio:
            loggers.append(GuardedLogger("Trackio", lambda: TrackioLogger(project, run)))
        if experiment := self.mlflow:
            loggers.append(GuardedLogger("MLflow", lambda: MlflowLogger(experiment, run)))
        if self.wandb and self.wandb.effective_mode() != "disabled":
            from fedpan_exp.tracking.wandb_log import WandbLogger  # slow to import

            loggers.append(WandbLogger(self.wandb, run))
        return loggers
