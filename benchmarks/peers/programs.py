"""A program that does the job, in a process of its own: its seconds a round, its memory, what it has learned."""

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

POLL_S = 2.0  # seconds between two looks at its memory: a look takes milliseconds, of a core that it may need
SILENT = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@dataclass
class Program:
    name: str
    module: str
    is_ours: bool = False  # runs in our environment, not the peers'
    one_process: bool = False  # is told how many threads; the others take a process a core and a thread each
    by_torchrun: bool = False
    settings: dict[str, str] = field(default_factory=dict)


@dataclass
class Measured:
    start: float = 0.0  # seconds to the end of the first round
    round: float = 0.0  # the median of the others
    megabytes: float = 0.0  # the most at a time, of all its processes; what they share counts once
    accuracy: float = 0.0  # after the last round
    trouble: str = ""  # why there is nothing to say


def measure(program: Program, peers: Path, data: Path, task: str, rounds: int, threads: int) -> Measured:
    """`peers` is the interpreter that has the others' packages.

    Whoever has reported has done the job, however it ends: pfl under torchrun was seen to abort on its way out.
    """
    python = sys.executable if program.is_ours else str(peers)
    runner = ["torch.distributed.run", "--standalone", f"--nproc-per-node={os.cpu_count()}", "-m"]
    words = ["-m", *(runner if program.by_torchrun else []), f"benchmarks.peers.{program.module}"]
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"} | SILENT | program.settings
    if program.one_process:
        environment["OMP_NUM_THREADS"] = str(threads)
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
        command, began, peak = [python, *words, str(data), task, str(rounds)], time.time(), 0
        with subprocess.Popen(command, stdout=said, stderr=complained, env=environment) as process:
            while process.poll() is None:
                peak = max(peak, proportional_kilobytes(process.pid))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_S)
        said.seek(0)
        complained.seek(0)
        lines, complaints = said.read().split("\n"), complained.read().strip().split("\n")
    reports = [line for line in lines if line.startswith('{"ended"')]
    if not reports:
        errors = [line for line in complaints if "Error: " in line]  # the first: others follow from it
        return Measured(trouble=f"failed: {(errors or complaints[-1:])[0]}")
    report = json.loads(reports[-1])
    ended = report["ended"]
    seconds = [after - before for before, after in pairwise(ended)]
    return Measured(ended[0] - began, median(seconds), peak / 1000, report["accuracies"][-1])
