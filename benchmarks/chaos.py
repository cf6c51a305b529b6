"""python -m benchmarks.chaos [kills] [algorithm ...]: kill -9 processes of runs at random moments.

Every run must end with the weights of a run that nobody killed. The victims are workers, which the run replaces, and
main processes, after which the same command is started again. The runs are small ones on the digits dataset. All is
forked from this process, so that starting again takes no seconds.
"""

import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch

from fedpan_exp import cli, config
from fedpan_exp.studies import load_studies
from fedpan_exp.system.atomic_io import read_json

ALGORITHMS = ("fedavg", "fedprox", "fedopt", "scaffold", "moon")
SCENE = ("K=12", "R=0.5", "E=1", "H=152", "alpha=1")  # H: whole passes of FedMA
SETTINGS = (
    *("dataset=digits", "model.width=32", "ranks=3", "checkpoint.every=5", "logger=none", "fabric.timeout=30"),
    *(f"fl_scene.{setting}" for setting in SCENE),
)
NEEDS = {  # of single algorithms
    "fed2": ("model.width=30", "model.groups=10"),
    "feddf": ("fl_scene.reserve=0.1", "algorithm.steps=5"),
}
LONGEST_PAUSE_S = 0.5  # before a kill
IN_ROUNDS = 0.9  # of the kills; the others may also hit a run that starts
MOST_STARTS = 10  # of one command without a kill, until its run counts as lost


@dataclass
class Toll:
    """What happened to the runs of one algorithm."""

    workers: int = 0  # killed
    mains: int = 0  # killed
    runs: int = 0
    interruptions: int = 0  # runs that ended by themselves, and were resumed
    lost: int = 0  # runs that could not be finished
    different: int = 0  # runs with other weights than the one that nobody killed

    @property
    def kills(self) -> int:
        return self.workers + self.mains


def kill_at_random(algorithm: str, kills: int, seed: int, folder: Path) -> Toll:
    """Run an algorithm again and again until `kills` processes have been killed."""
    overrides = (f"algorithm={algorithm}", *SETTINGS, *NEEDS.get(algorithm, ()))
    rng, toll = random.Random(f"{algorithm} {seed}"), Toll()
    straight = folder / "straight"
    assert _wait(_start(straight, overrides)) == 0, f"see {straight / 'output'}"
    while toll.kills < kills:
        toll.runs += 1
        killed = folder / f"killed{toll.runs}"
        if not _finish(killed, overrides, kills, rng, toll):
            toll.lost += 1
        elif _weights(killed) != _weights(straight):
            toll.different += 1
    return toll


def _finish(folder: Path, overrides: tuple[str, ...], kills: int, rng: random.Random, toll: Toll) -> bool:
    """Start a run, kill its processes, and start it again until it is done; returns whether that worked."""
    starts_without_kill = 0
    while starts_without_kill < MOST_STARTS:
        before, process = toll.mains, _start(folder, overrides)
        while toll.kills < kills and toll.mains == before and not _has_ended(process):
            if rng.random() < IN_ROUNDS:
                _wait_for_a_round(folder, process)
            time.sleep(rng.uniform(0, LONGEST_PAUSE_S))
            _kill_one(process, rng, toll)
        if _wait(process) == 0:
            return True
        if toll.mains == before:
            starts_without_kill += 1
            toll.interruptions += 1
    return False


def _wait_for_a_round(folder: Path, process: int) -> None:
    """Wait until another round is recorded, or the run has ended."""
    before = _records(folder)
    while _records(folder) == before and not _has_ended(process):
        time.sleep(0.01)


def _records(folder: Path) -> int:
    """The size of all records, in bytes."""
    try:
        return sum(file.stat().st_size for file in folder.glob("runs/*/metrics.jsonl"))
    except FileNotFoundError:  # a run that starts anew has just deleted them
        return 0


def _kill_one(process: int, rng: random.Random, toll: Toll) -> None:
    """Kill a worker or the main process, if there is one."""
    if _has_ended(process):
        return
    workers = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    if rng.random() < 0.5:
        os.kill(process, signal.SIGKILL)
        toll.mains += 1
    elif workers:
        try:
            os.kill(int(rng.choice(workers)), signal.SIGKILL)
        except ProcessLookupError:  # it has just been replaced
            return
        toll.workers += 1


def _start(folder: Path, overrides: tuple[str, ...]) -> int:
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
        output = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.argv = ["fedpan_exp", *overrides]
        cli.main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


def _wait(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _has_ended(process: int) -> bool:
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _weights(folder: Path) -> str:
    """The hash of the final weights."""
    (run,) = (path.parent for path in folder.glob("runs/*/status.json"))
    assert read_json(run / "status.json")["status"] == "done"
    return sha256((run / "weights.safetensors").read_bytes()).hexdigest()


def main() -> None:
    kills, algorithms = int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2:] or ALGORITHMS
    torch.set_num_threads(1)
    config.register(load_studies())
    tolls = []
    with tempfile.TemporaryDirectory() as folder:
        for i, algorithm in enumerate(algorithms):
            share = (kills + i) // len(algorithms)
            tolls.append(toll := kill_at_random(algorithm, share, seed=0, folder=Path(folder) / algorithm))
            killed = f"{toll.workers} workers and {toll.mains} main processes killed in {toll.runs} runs"
            ends = f"{toll.interruptions} interrupted, {toll.lost} lost, {toll.different} with other weights"
            print(f"{algorithm:<10}{killed}; {ends}", flush=True)
    lost, different = sum(toll.lost for toll in tolls), sum(toll.different for toll in tolls)
    print(f"{sum(toll.kills for toll in tolls)} kills: {lost} runs lost, {different} differences in final weights")
    sys.exit(1 if lost or different else 0)


if __name__ == "__main__":
    main()
