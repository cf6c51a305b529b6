"""Which GPU a process uses, where several processes or several jobs of a sweep share the GPUs of a machine."""

import os
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import torch
from filelock import FileLock, Timeout

MAX_PROCESSES_PER_GPU = 5  # pfl documents 1 to 5 as best; not measured here
CONTEXT_BYTES = 600 * 1024**2  # what CUDA itself takes per process, about

_claimed: list[FileLock] = []  # at most one, kept until this process ends


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, by the names that CUDA_VISIBLE_DEVICES has for them."""
    available = torch.cuda.device_count()  # does not initialise CUDA
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    return names.split(",")[:available] if names else [str(gpu) for gpu in range(available)]


def gpu_of(local_rank: int, gpus: int) -> int | None:
    """The GPU of one of several processes on a machine, which take turns; None without GPUs."""
    return local_rank % gpus if gpus else None


def processes_that_fit(process_bytes: int, free_bytes: int, clients: int, cores: int) -> int:
    """How many processes can train on one GPU, of which one already runs and takes `process_bytes`."""
    others = free_bytes // (process_bytes + CONTEXT_BYTES)
    return max(1, min(1 + others, MAX_PROCESSES_PER_GPU, clients, cores))


def claim_gpu(gpus: Sequence[str] | None = None, folder: Path | None = None) -> str | None:
    """Reserve a GPU for this process until it ends, the one with the fewest such processes; None without GPUs.

    Reservations are file locks, which the system releases when a process dies. CUDA then sees this GPU only, so it must
    not be initialised yet. Further calls change nothing.
    """
    gpus = visible_gpus() if gpus is None else gpus
    if not gpus or _claimed:
        return None
    user = os.getuid() if hasattr(os, "getuid") else "user"  # Windows has none
    folder = folder or Path(tempfile.gettempdir(), f"fedpan_exp-gpus-{user}")
    folder.mkdir(exist_ok=True)
    for number in count():  # one process per GPU, then a second one, ...
        for gpu in gpus:
            lock = FileLock(folder / f"{gpu}-{number}.lock".replace("/", "_"))
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            _claimed.append(lock)
            os.environ["CUDA_VISIBLE_DEVICES"] = gpu
            return gpu
    return None
