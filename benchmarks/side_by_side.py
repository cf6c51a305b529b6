"""Four jobs of a sweep, one after another and side by side: how much faster, and whether the numbers are the same."""

import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

JOBS = ("-m", "seed=0,1,2,3", "fl_scene.H=6", "training.clip=10", "ranks=1")  # without a bound one of them diverges


def in_turn_and_side_by_side(*words: str) -> tuple[float, float, bool]:
    """Seconds of each, start-up and pictures and all; whether the final weights are equal, bit for bit."""
    one, first = _sweep(*words, "hydra/launcher=basic")
    other, second = _sweep(*words, "hydra/launcher=cores")
    return one, other, first == second


def _sweep(*words: str) -> tuple[float, dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "fedpan_exp", *JOBS, *words, f"runs={folder}"], check=True, stdout=subprocess.DEVNULL
        )
        seconds = time.perf_counter() - began
        weights = Path(folder).glob("*/weights.safetensors")
        return seconds, {path.parent.name: sha256(path.read_bytes()).hexdigest() for path in weights}
