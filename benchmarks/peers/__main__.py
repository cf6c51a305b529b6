"""make bench-peers: a round of FedAvg in other simulators and here, as ratios to a plain torch loop, in turns.

ARGS="TURNS ROUNDS" takes other numbers than 3 turns of 8 rounds each.
"""

import os
import sys
import tempfile
from pathlib import Path
from statistics import median

import torch

from benchmarks.peers.programs import Measured, Program, measure
from benchmarks.peers.settings import export
from fedpan_exp.console import console

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
WIDTHS = (1024, 64)


def main(peers: Path, turns: int = 3, rounds: int = 8) -> None:
    console.print(f"torch {torch.__version__}, {os.cpu_count()} cores; {turns} turns of {rounds} rounds")
    console.print("10 of 100 clients, 600 MNIST images each, E=5, B=64, SGD with momentum, a test of 10,000 images")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "mnist.safetensors"
        export(data)
        for width in WIDTHS:
            trials = {n: measure(FLOOR, peers, data, width, 3, n).round for n in {1, os.cpu_count() or 1}}
            threads = min(trials, key=trials.__getitem__)
            found: dict[str, list[Measured]] = {program.name: [] for program in PROGRAMS}
            for _ in range(turns):
                for program in PROGRAMS:
                    found[program.name].append(measure(program, peers, data, width, rounds, threads))
            show(f"MLP 784-{width}-{width}-{width}-10, {threads} threads in 1 process", found)


def show(title: str, found: dict[str, list[Measured]]) -> None:
    console.print(f"\n[bold]{title}[/bold]")
    console.print(f"  {'':36}{'a round':>9}{'ratio':>8}{'first round':>13}{'memory':>10}{'accuracy':>10}")
    floor = [one.round for one in found[FLOOR.name]]
    for name, turns in found.items():
        if trouble := next((one.trouble for one in turns if one.trouble), ""):
            console.print(f"  {name:<36}{trouble}", markup=False)
            continue
        ratio = median(one.round / plain for one, plain in zip(turns, floor, strict=True))
        start, megabytes = (min(getattr(one, what) for one in turns) for what in ("start", "megabytes"))
        seconds = median(one.round for one in turns)
        numbers = f"{seconds:7.2f} s{ratio:8.2f}{start:11.1f} s{megabytes:7.0f} MB{turns[-1].accuracy:10.2%}"
        console.print(f"  {name:<36}{numbers}")


main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
