"""make bench-peers: a round of FedAvg in other simulators and here, as ratios to a plain torch loop, in turns.

ARGS="mlp64 vgg9" takes some of the jobs.
"""

import os
import sys
import tempfile
from pathlib import Path
from statistics import median

import torch

from benchmarks.peers.job import TASKS
from benchmarks.peers.programs import Measured, Program, measure
from benchmarks.peers.settings import export
from fedpan_exp.system.console import console

FLOOR = Program("a plain loop, 1 process: the floor", "floor", is_ours=True, one_process=True)
PROGRAMS = [
    FLOOR,
    Program("fedpan_exp, ranks=1", "ours", is_ours=True, one_process=True, settings={"RANKS": "1"}),
    Program("fedpan_exp, ranks=auto", "ours", is_ours=True, settings={"RANKS": "auto"}),
    Program("Flower, an actor a core", "flower"),
    Program("pfl, 1 process", "pfl", one_process=True),
    Program("pfl, torchrun, a process a core", "pfl", by_torchrun=True),
    Program("fluke, 1 process", "fluke", one_process=True),
]


def main(peers: Path, *names: str) -> None:
    if strange := set(names) - TASKS.keys():
        sys.exit(f"benchmarks.peers: jobs must be of {', '.join(TASKS)}, got {', '.join(sorted(strange))}")
    console.print(f"torch {torch.__version__}, {os.cpu_count()} cores")
    console.print(
        "a round of 100 clients with equal parts of the data, B=64, SGD with momentum; a test of 10,000 images"
    )
    for name in names or TASKS:
        task = TASKS[name]
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data.safetensors"
            export(name, data)
            number = 1 + task.rounds  # the first is told apart
            trials = {n: measure(FLOOR, peers, data, name, min(number, 4), n).round for n in {1, os.cpu_count() or 1}}
            threads = min(trials, key=trials.__getitem__)
            found: dict[str, list[Measured]] = {program.name: [] for program in PROGRAMS}
            for _ in range(task.turns):
                for program in PROGRAMS:
                    found[program.name].append(measure(program, peers, data, name, number, threads))
        scene = f"{task.cohort_size} clients a round, E={task.E}; {threads} threads in 1 process"
        show(f"{task.title}, {scene}", found)


def show(title: str, found: dict[str, list[Measured]]) -> None:
    console.print(f"\n[bold]{title}[/bold]")
    console.print(f"  {'':36}{'a round':>9}{'ratio':>8}{'first round':>13}{'memory':>10}{'accuracy':>10}")
    floor = [one.round for one in found[FLOOR.name]]
    for name, turns in found.items():
        if trouble := next((one.trouble for one in turns if one.trouble), ""):
            console.print(f"  {name:<36}{trouble}", markup=False)
            continue
        ratio = median(one.round / plain for one, plain in zip(turns, floor, strict=True))
        start, seconds = min(one.start for one in turns), median(one.round for one in turns)
        memory = max(one.megabytes for one in turns)
        numbers = f"{seconds:7.2f} s{ratio:8.2f}{start:11.1f} s{memory:7.0f} MB{turns[-1].accuracy:10.2%}"
        console.print(f"  {name:<36}{numbers}")


main(Path(sys.argv[1]), *sys.argv[2:])
