"""Executors train the cohort of a round, in one process or several; no other module knows of processes.

SerialExecutor uses this process only, ForkedExecutor one process per core, TorchrunExecutor the processes that torchrun
has started. All of them give the same weights, bit for bit.
"""

import os
import sys
from collections.abc import Callable

import torch

from fedpan_exp.federation.client_states import ClientStates
from fedpan_exp.federation.executors import torchrun
from fedpan_exp.federation.executors.executor import Executor
from fedpan_exp.federation.executors.forked import ForkedExecutor
from fedpan_exp.federation.executors.process_group import WorkerDied
from fedpan_exp.federation.executors.serial import SerialExecutor
from fedpan_exp.federation.executors.torchrun import TorchrunExecutor
from fedpan_exp.federation.task import FederatedTask
from fedpan_exp.system.errors import require
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.training import FabricSettings

__all__ = [
    "Executor",
    "SerialExecutor",
    "WorkerDied",
    "check_ranks",
    "count_ranks",
    "make_executor",
    "torchrun",
]


def check_ranks(setting: str) -> None:
    is_number = setting.isdecimal() and int(setting) >= 1
    require(setting == "auto" or is_number, "ranks", "auto or a number from 1", setting)


def count_ranks(setting: str, cohort_size: int, device: torch.device) -> int:
    """How many processes train the clients of a round: at most one per client.

    `auto` takes one per core that this process may use, but not more than torch's threads: parallel runs
    divide the cores among them through OMP_NUM_THREADS.
    """
    if torchrun.is_launched():
        size = torchrun.size()
        require(setting in ("auto", str(size)), "ranks", f"auto or {size}, as torchrun has started", setting)
        require(size <= cohort_size, "torchrun's processes", f"at most {cohort_size}, the clients of a round", size)
        return size
    can_fork = device.type == "cpu" and sys.platform == "linux"
    if setting == "auto":
        return min(torch.get_num_threads(), len(os.sched_getaffinity(0)), cohort_size) if can_fork else 1
    rule = f"auto or 1 here; `torchrun --nproc-per-node={setting} -m fedpan_exp ...` starts processes on {device}"
    require(can_fork or setting == "1", "ranks", rule, setting)
    return min(int(setting), cohort_size)


def make_executor(
    task: FederatedTask,
    ranks: int,
    states: ClientStates | None = None,
    stop: StopRequest | None = None,
    on_clients_done: Callable[[int], None] = lambda clients: None,
    timeout: float = FabricSettings.timeout,
) -> Executor:
    """The executor for `ranks` processes, each of which counts as dead after `timeout` seconds without progress."""
    if torchrun.is_launched():
        return TorchrunExecutor(timeout, task, states, stop, on_clients_done)
    if ranks == 1:
        return SerialExecutor(task, states, stop, on_clients_done)
    return ForkedExecutor(ranks, timeout, task, states, stop, on_clients_done)
