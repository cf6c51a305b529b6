"""The control of a twin study: how far two networks drift apart if nothing but rounding tells them apart."""

import torch
from torch import Tensor

from fedpan_exp.federation import FederatedTask, SerialExecutor, federate
from fedpan_exp.system.console import print_status, progress_bar
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.training import FlatParameters


def growth_of_rounding(task: FederatedTask, start: FlatParameters, end: Tensor, stop: StopRequest) -> float:
    """Train again, from a start that differs in the last bit; return the largest difference of a weight at the end."""
    epsilon = torch.finfo(start.weights.dtype).eps
    print_status("control", f"how far rounding errors grow: the twin again, from a start that differs by {epsilon:.1e}")
    task.trainer.net.load(start.weights * (1 + epsilon), start.buffers)
    with progress_bar("control", task.scene.H) as progress:
        for round_ in federate(task, SerialExecutor(task, stop=stop)):
            progress.advance(1)
            progress.describe(f"round {round_.index}")
    return (round_.server.weights - end).abs().max().item()
