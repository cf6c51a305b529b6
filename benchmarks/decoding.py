"""Load a folder of small PNGs twice: the first start decodes them, the second loads the cached tensors."""

import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from fedpan_exp.data.datasets.cinic import CINIC10, CLASSES
from fedpan_exp.data.store import load_or_download

PNGS = 20_000


def first_and_second_start() -> tuple[float, float]:
    """Seconds of both starts, with the files in the page cache; the second is the best of seven."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        rng = np.random.default_rng(0)
        for index in range(PNGS):
            class_dir = root / "CINIC-10" / ("train" if index % 2 else "test") / CLASSES[index % 10]
            class_dir.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(class_dir / f"{index}.png")
        seconds = []
        for _ in range(8):
            start = time.perf_counter()
            load_or_download(CINIC10, root, verify=False)
            seconds.append(time.perf_counter() - start)
        return seconds[0], min(seconds[1:])
