"""hydra/sweeper=fedpan. Hydra looks for plugins in this namespace only; what a sweep does is in fedpan_exp.sweeping."""

from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class FedpanSweeperConf:
    _target_: str = "hydra_plugins.fedpan_sweeper.FedpanSweeper"
    _convert_: str = "all"  # plain lists and dicts
    file: Any = None  # of sweeps/, whose grids are run
    params: Any = None  # setting -> values, as for Hydra's basic sweeper


ConfigStore.instance().store(group="hydra/sweeper", name="fedpan", node=FedpanSweeperConf, provider="fedpan_exp")


class FedpanSweeper(Sweeper):
    """Runs a union of grids: each experiment once, all checked before the first one starts."""

    def __init__(self, file: str | None, params: Any):
        self._file, self._params = file, params

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self._task_function, self.config = hydra_context, task_function, config

    def sweep(self, arguments: list[str]) -> Any:
        # Hydra imports its plugins for every program of an environment; this import takes seconds, for torch.
        from fedpan_exp.sweeping.sweeper import run_sweep

        assert self.hydra_context is not None
        assert self.config is not None
        return run_sweep(self._file, self._params, self.config, self.hydra_context, self._task_function)
