"""What only a process of its own can show: start-up time and peak memory."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path


def start_up(*overrides: str) -> float:
    """Seconds from the command to the first round done, less that round."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fedpan_exp", f"runs={folder}", "fl_scene.H=1", *overrides]
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip().startswith("device"):  # the last thing said before training starts
                    seconds = time.perf_counter() - began
    return seconds


def peak_memory(*overrides: str) -> float:
    """Megabytes, of a process of its own (Linux; getrusage would count the process that started it, too)."""
    code = "from fedpan_exp.cli import main; main(); print(open('/proc/self/status').read())"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", code, f"runs={folder}", *overrides]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (peak,) = (line.split()[1] for line in output.splitlines() if line.startswith("VmHWM"))
    return int(peak) / 1000


def peak_memory_over_ranks(*overrides: str) -> float:
    """Megabytes of all processes of a run together; what they share counts once (Linux: the proportional set size)."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fedpan_exp", f"runs={folder}", *overrides]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            peak = 0
            while process.poll() is None:
                peak = max(peak, proportional_kilobytes(process.pid))
                time.sleep(0.02)
    assert process.returncode == 0, "the run has failed"
    return peak / 1000


def proportional_kilobytes(process: int) -> int:
    """Of a process and of those it has started; 0 for one that has just ended."""
    own = Path(f"/proc/{process}")
    try:
        rollup = (own / "smaps_rollup").read_text()
        children = (own / f"task/{process}/children").read_text().split()
    except OSError:
        return 0
    size = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return size + sum(proportional_kilobytes(int(child)) for child in children)
