"""Start-up time and peak memory, measured in separate processes."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path


def start_up(*overrides: str) -> float:
    """Seconds from the command to the start of the first round."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fedpan_exp", f"runs={folder}", "logger=none", "fl_scene.H=1", *overrides]
        started = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip().startswith("device"):  # the last line printed before training
                    seconds = time.perf_counter() - started
    return seconds


def peak_memory(*overrides: str) -> float:
    """Peak memory of a run's main process, in megabytes (Linux; getrusage would include the parent)."""
    code = "from fedpan_exp.cli import main; main(); print(open('/proc/self/status').read())"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", code, f"runs={folder}", "logger=none", *overrides]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (peak,) = (line.split()[1] for line in output.splitlines() if line.startswith("VmHWM"))
    return int(peak) / 1000


def peak_memory_over_ranks(*overrides: str) -> float:
    """Peak memory of all processes of a run, in megabytes; shared memory counts once (Linux: proportional set size)."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fedpan_exp", f"runs={folder}", "logger=none", *overrides]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            peak = 0
            while process.poll() is None:
                peak = max(peak, proportional_kilobytes(process.pid))
                time.sleep(0.02)
    assert process.returncode == 0, "the run failed"
    return peak / 1000


def proportional_kilobytes(pid: int) -> int:
    """Memory of a process and its descendants; 0 for one that has just ended."""
    proc = Path(f"/proc/{pid}")
    try:
        rollup = (proc / "smaps_rollup").read_text()
        children = (proc / f"task/{pid}/children").read_text().split()
    except OSError:
        return 0
    size = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return size + sum(proportional_kilobytes(int(child)) for child in children)
