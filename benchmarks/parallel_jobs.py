"""Time the four jobs of a sweep, sequentially or in parallel, and hash their weights: the numbers must be the same."""

import os
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

JOBS = ("-m", "seed=0,1,2,3", "fl_scene.H=4")
SEQUENTIAL = "hydra/launcher=basic"
PARALLEL = "hydra/launcher=cores"


class SweepResult(NamedTuple):
    seconds: float  # including start-up and plots
    weights: dict[str, str]  # run -> hash of its final weights


def sweep(*overrides: str, threads: int | None = None) -> SweepResult:
    """Run the jobs; `threads` sets OMP_NUM_THREADS."""
    env = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "fedpan_exp", *JOBS, "logger=none", *overrides, f"runs={folder}"],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **env},
        )
        seconds = time.perf_counter() - started
        weights = Path(folder).glob("*/weights.safetensors")
        return SweepResult(seconds, {path.parent.name: sha256(path.read_bytes()).hexdigest() for path in weights})
