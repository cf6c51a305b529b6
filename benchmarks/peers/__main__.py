"""make bench-peers: rounds of FedAvg in other simulators and in fedpan_exp, as ratios to a plain torch loop.

The programs take turns. ARGS="mlp64 vgg9" selects jobs.
"""

import os
import sys
import tempfile
from pathlib import Path
from statistics import median

import torch

from benchmarks.peers.job import TASKS
from benchmarks.peers.programs import Measurement, Program, busy_cores, measure
from benchmarks.peers.settings import export
from fedpan_exp.system.console import console

TURNS = 5
FLOOR = Program("plain torch loop, 1 process (floor)", "floor", is_ours=True, single_process=True)
PROGRAMS = [
    FLOOR,
    Program("fedpan_exp, ranks=1", "ours", is_ours=True, single_process=True, env={"RANKS": "1"}),
    Program("fedpan_exp, ranks=auto", "ours", is_ours=True, env={"RANKS": "auto"}),
    Program("Flower, one actor per core", "flower"),
    Program("pfl, 1 process", "pfl", single_process=True),
    Program("pfl, torchrun, one process per core", "pfl", uses_torchrun=True),
    Program("fluke, 1 process", "fluke", single_process=True),
    Program("BlazeFL, one process per core", "blazefl"),
]


def main(peers: Path, *names: str) -> None:
    if unknown := set(names) - TASKS.keys():
        sys.exit(f"benchmarks.peers: jobs must be among {', '.join(TASKS)}, got {', '.join(sorted(unknown))}")
    console.print(f"torch {torch.__version__}, {os.cpu_count()} cores")
    console.print("K=100 clients of equal size, B=64, SGD with momentum; evaluation on 10,000 images after each round")
    for name in names or TASKS:
        task = TASKS[name]
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data.safetensors"
            export(name, data)
            rounds = 1 + task.rounds  # the first is reported separately
            trials = {n: measure(FLOOR, peers, data, name, min(rounds, 4), n).round for n in {1, os.cpu_count() or 1}}
            threads = min(trials, key=trials.__getitem__)
            results: dict[str, list[Measurement]] = {program.name: [] for program in PROGRAMS}
            foreign_loads = []
            for _ in range(TURNS):
                for program in PROGRAMS:
                    foreign_loads.append(busy_cores())
                    results[program.name].append(measure(program, peers, data, name, rounds, threads))
        plural = "" if threads == 1 else "s"
        scene = f"{task.cohort_size} clients per round, E={task.E}; {threads} thread{plural} in single-process programs"
        show(f"{task.title}, {scene}", results)
        loads = f"median {median(foreign_loads):.2f}, at most {max(foreign_loads):.2f} cores"
        console.print(f"  other processes between the measurements: {loads}")


def show(title: str, results: dict[str, list[Measurement]]) -> None:
    """Print the median over turns; of the ratio also the smallest and the largest value."""
    console.print(f"\n[bold]{title}[/bold]")
    console.print(
        f"  {'':36}{'per round':>9}{'ratio':>8}{'range':>14}{'first round':>13}{'memory':>10}{'accuracy':>10}"
    )
    floor = [turn.round for turn in results[FLOOR.name]]
    for name, turns in results.items():
        if error := next((turn.error for turn in turns if turn.error), ""):
            console.print(f"  {name:<36}{error}", markup=False)
            continue
        ratios = [turn.round / seconds for turn, seconds in zip(turns, floor, strict=True)]
        seconds, first = median(turn.round for turn in turns), min(turn.first_round for turn in turns)
        memory = max(turn.megabytes for turn in turns)
        times = f"{seconds:7.2f} s{median(ratios):8.2f}{f'{min(ratios):.2f} to {max(ratios):.2f}':>14}{first:11.1f} s"
        console.print(f"  {name:<36}{times}{memory:7.0f} MB{turns[-1].accuracy:10.2%}")


main(Path(sys.argv[1]), *sys.argv[2:])
