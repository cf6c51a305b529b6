"""Processes that torchrun has started, on one machine or several: all of them are one run.

The first one, rank 0, is the run: it alone speaks, writes and decides. The others help it.
"""

import os
from datetime import timedelta

# A process that dies is noticed when its connections close; one that only takes long is waited for.
TIMEOUT_S = timedelta(days=7)


def is_launched() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def rank() -> int:
    return int(os.environ["RANK"]) if is_launched() else 0


def size() -> int:
    return int(os.environ["WORLD_SIZE"]) if is_launched() else 1


def local_rank() -> int:
    """Among the processes on this machine: which of its devices to take."""
    return int(os.environ["LOCAL_RANK"]) if is_launched() else 0


def local_size() -> int:
    return int(os.environ["LOCAL_WORLD_SIZE"]) if is_launched() else 1


def connect() -> None:
    """At the start, so that whoever waits for rank 0 notices when that has ended, for whatever reason."""
    import torch

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    torch.distributed.init_process_group(backend, timeout=TIMEOUT_S)
