"""Four jobs of a sweep, one after another and side by side: how much faster, and whether the numbers are the same."""

import os
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

JOBS = ("-m", "seed=0,1,2,3", "fl_scene.H=4", "training.clip=10")  # without a bound one of them diverges
IN_TURN = "hydra/launcher=basic"
SIDE_BY_SIDE = "hydra/launcher=cores"


class Sweep(NamedTuple):
    seconds: float  # start-up and pictures and all
    weights: dict[str, str]  # the final ones of each run, as a hash


def sweep(*words: str, threads: int | None = None) -> Sweep:
    given = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "fedpan_exp", *JOBS, *words, f"runs={folder}"],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **given},
        )
        seconds = time.perf_counter() - began
        weights = Path(folder).glob("*/weights.safetensors")
        return Sweep(seconds, {path.parent.name: sha256(path.read_bytes()).hexdigest() for path in weights})
