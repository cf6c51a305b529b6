"""Run a program in a separate process and measure its seconds per round, memory and accuracy."""

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.processes import proportional_kilobytes

POLL_S = 2.0  # between two readings of its memory, which take milliseconds of CPU time
NO_TELEMETRY = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@dataclass
class Program:
    name: str
    module: str
    is_ours: bool = False  # runs in our environment, not the peers'
    single_process: bool = False  # gets `threads` threads; the others use one process per core with one thread each
    uses_torchrun: bool = False
    env: dict[str, str] = field(default_factory=dict)


@dataclass
class Measurement:
    first_round: float = 0.0  # seconds from the start of the program to the end of its first round
    round: float = 0.0  # median seconds of the other rounds
    megabytes: float = 0.0  # peak memory of all its processes; shared memory counts once
    accuracy: float = 0.0  # after the last round
    error: str = ""  # if it failed


def busy_cores(seconds: float = 0.5) -> float:
    """How many cores other processes use, while this one waits."""
    started, before = time.monotonic(), _busy_ticks()
    time.sleep(seconds)
    return (_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - started)


def _busy_ticks() -> int:
    """Clock ticks that all cores together have worked since the machine started."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    return user + nice + system + irq + softirq


def measure(program: Program, peers: Path, data: Path, task: str, rounds: int, threads: int) -> Measurement:
    """Run one program; `peers` is the Python interpreter of the peers' environment.

    The exit code is ignored if there is a report: pfl under torchrun sometimes aborts after it has finished.
    """
    python = sys.executable if program.is_ours else str(peers)
    runner = ["torch.distributed.run", "--standalone", f"--nproc-per-node={os.cpu_count()}", "-m"]
    module = ["-m", *(runner if program.uses_torchrun else []), f"benchmarks.peers.{program.module}"]
    env = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"} | NO_TELEMETRY | program.env
    if program.single_process:
        env["OMP_NUM_THREADS"] = str(threads)
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        command, started, peak = [python, *module, str(data), task, str(rounds)], time.time(), 0
        with subprocess.Popen(command, stdout=stdout, stderr=stderr, env=env) as process:
            while process.poll() is None:
                peak = max(peak, proportional_kilobytes(process.pid))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_S)
        stdout.seek(0)
        stderr.seek(0)
        output, error_output = stdout.read().split("\n"), stderr.read().strip().split("\n")
    reports = [line for line in output if line.startswith('{"ended"')]
    if not reports:
        errors = [line for line in error_output if "Error: " in line]  # the first causes the others
        return Measurement(error=f"failed: {(errors or error_output[-1:])[0]}")
    report, _ = json.JSONDecoder().raw_decode(reports[-1])  # processes of torchrun may print theirs on one line
    ended = report["ended"]
    seconds = [after - before for before, after in pairwise(ended)]
    return Measurement(ended[0] - started, median(seconds), peak / 1000, report["accuracies"][-1])
