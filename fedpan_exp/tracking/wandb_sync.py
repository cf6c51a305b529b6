"""Upload W&B runs that were logged offline, several at a time; what is uploaded is remembered in a file next to it."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedpan_exp.system.console import console, progress_bar, warn
from fedpan_exp.system.errors import UserError
from fedpan_exp.tracking.wandb_settings import has_key

UPLOADS = 4  # at a time
TIMEOUT_S = 600  # of one upload
DONE = "uploaded"  # a file in the folder of an offline run


def upload(folder: Path) -> str:
    """Upload one offline run; return what went wrong, or nothing."""
    command = [sys.executable, "-m", "wandb", "sync", str(folder)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"W&B has not answered for {TIMEOUT_S} s"
    lines = [line for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    return "" if ended.returncode == 0 else lines[-1] if lines else f"wandb ended with {ended.returncode}"


def sync(
    runs: Iterable[Path],
    upload: Callable[[Path], str] = upload,
    has_key: Callable[[], bool] = has_key,
) -> int:
    """Upload what is not uploaded yet; return the exit code."""
    offline = [folder for run in runs for folder in sorted(run.rglob("wandb/offline-run-*"))]
    waiting = [folder for folder in offline if not (folder / DONE).exists()]
    if waiting and not has_key():
        raise UserError("uploading to W&B needs a key: run `wandb login`, or set WANDB_API_KEY")
    failed = 0
    with progress_bar("upload", len(waiting)) as progress, ThreadPoolExecutor(UPLOADS) as pool:
        for folder, problem in zip(waiting, pool.map(upload, waiting), strict=True):
            if problem:
                failed += 1
                warn(f"{folder} could not be uploaded ({problem})")
            else:
                (folder / DONE).touch()
            progress.advance(1)
    done, earlier = len(waiting) - failed, len(offline) - len(waiting)
    console.print(f"{done} uploaded, {failed} failed, {earlier} uploaded earlier", markup=False)
    return 1 if failed else 0
