"""make bench: one federated round against a plain torch loop, each algorithm, clients over processes, decoding, what
records, checkpoints and probes cost, jobs side by side, start-up, memory. ARGS="rounds ranks" takes parts of it.

Times on a busy machine mean little; ratios of times taken in turns mean more. Best of several.
"""

import sys

import torch

from benchmarks.decoding import PNGS, first_and_second_start
from benchmarks.keeping import cost_of_keeping
from benchmarks.many_clients import ratio_of_rounds
from benchmarks.probing import cost_of_probing
from benchmarks.processes import peak_memory, peak_memory_over_ranks, start_up
from benchmarks.ranks import over_ranks
from benchmarks.rounds import against_floor
from benchmarks.side_by_side import IN_TURN, SIDE_BY_SIDE, sweep
from fedpan_exp import config
from fedpan_exp.algorithms import ALGORITHMS
from fedpan_exp.studies import load_studies
from fedpan_exp.system.console import console

VGG9 = ("dataset=cifar10", "model=vgg9", "fl_scene.R=0.02", "fl_scene.E=1")
JOBS = {
    "MLP 1024 on MNIST, K=100 R=0.1 E=5 (the paper's)": ((), 5),
    "VGG9 on CIFAR-10, K=100 R=0.02 E=1": (VGG9, 5),
    "784-10 on MNIST: nothing but overhead": (("model.depth=0",), 20),
}
OVER_RANKS = {
    "MLP 1024 on MNIST, K=100 R=0.1 E=5 (the paper's)": ((), 5),
    "MLP 64 on MNIST, likewise": (("model.width=64",), 15),
    "VGG9 on CIFAR-10, K=100 R=0.02 E=1": (VGG9, 3),
}


def rounds() -> None:
    console.print("[bold]One round[/bold]; the floor is a plain torch loop that does FedAvg's steps")
    console.print(f"  {'':52}{'floor':>9}{'ours':>9}{'ratio':>8}   over the floor")
    algorithms = {f"{name}, MLP 1024 on MNIST, E=5": ((f"algorithm={name}",), 4) for name in ALGORITHMS}
    for name, (overrides, repeats) in (JOBS | algorithms).items():
        t = against_floor(overrides, repeats)
        console.print(f"  {name:<52}{t.floor:7.3f} s{t.ours:7.3f} s{t.ratio:8.3f}{t.overhead_us:9.0f} µs a step")


def ranks() -> None:
    console.print("\n[bold]Clients over processes[/bold]: a round and its test, as ratios to the floor, in turns")
    console.print(f"  {'':52}{'floor':>9}{'1 rank':>9}{'2 ranks':>9}")
    for name, (overrides, repeats) in OVER_RANKS.items():
        table = over_ranks(overrides, repeats)
        console.print(f"  {name:<52}{min(table.floor):7.2f} s{table.ratio(1):9.3f}{table.ratio(2):9.3f}")
    alone, both = (peak_memory_over_ranks("fl_scene.H=2", f"ranks={number}") for number in (1, 2))
    console.print(f"  peak memory, MLP 1024: 1 rank {alone:.0f} MB, 2 ranks {both:.0f} MB, {both / alone:.2f} times")


def many_clients() -> None:
    many = ("fl_scene.K=10000", "fl_scene.R=0.001", "model.width=64", "ranks=1")
    console.print("\n[bold]K=10,000[/bold], 10 a round, MLP 64 on MNIST")
    console.print(f"  start-up to the first round {start_up(*many):.1f} s")
    console.print(f"  a round among 10,000 takes {ratio_of_rounds():.2f} of one among 100 clients of the same size")


def memory() -> None:
    small = ("model.width=64", "fl_scene.H=2", "fl_scene.E=1")
    scenes = {"K=100, 10 a round": (100, 0.1), "K=5000, 10 a round": (5000, 0.002), "K=1000, 100 a round": (1000, 0.1)}
    console.print("\n[bold]Peak memory[/bold] against the number of clients, MLP 64 on MNIST")
    for name, (K, R) in scenes.items():
        console.print(f"  {name:<52}{peak_memory(*small, f'fl_scene.K={K}', f'fl_scene.R={R}'):7.0f} MB")

    visit_500 = ("model.width=512", "fl_scene.K=500", "fl_scene.R=1", "fl_scene.H=1", "fl_scene.E=1")
    console.print("\n[bold]Peak memory[/bold] after visiting 500 clients, MLP 512 on MNIST")
    for words in ("fedavg", "scaffold fl_scene.client_memory=disk", "scaffold fl_scene.client_memory=memory"):
        console.print(f"  {words:<52}{peak_memory(*visit_500, *f'algorithm={words}'.split()):7.0f} MB")


def decoding() -> None:
    first, second = first_and_second_start()
    console.print(f"\n[bold]{PNGS:,} PNGs[/bold] of 32x32, two cores")
    console.print(f"  first start {first:.2f} s, second {second:.3f} s: {first / second:.0f} times faster")


def sweeps() -> None:
    console.print("\n[bold]Four jobs[/bold], MLP 1024 on MNIST, with hydra/launcher=cores and in turn")
    both = sweep(SIDE_BY_SIDE)
    console.print(f"  {'side by side, a job a core':<52}{both.seconds:7.0f} s")
    ways = {
        "in turn, a thread each": sweep(IN_TURN, "ranks=1", threads=1),
        "in turn, all threads each": sweep(IN_TURN, "ranks=1"),
        "in turn, a rank a core each (the default)": sweep(IN_TURN),
    }
    for name, way in ways.items():
        equal = "equal bit for bit" if way.weights == both.weights else "not equal bit for bit"
        console.print(f"  {name:<52}{way.seconds:7.0f} s, {way.seconds / both.seconds:.2f} times; weights {equal}")


def probing() -> None:
    cost = cost_of_probing()
    console.print("\n[bold]All five probes[/bold] in every third round, MLP 1024; of the same round without")
    console.print(f"  rounds that they look at {cost.looked_at:.2f}, other rounds {cost.others:.3f}")


def keeping() -> None:
    console.print(
        "\n[bold]Not losing a run[/bold]: records, offline W&B, a checkpoint every 10 rounds; of the time in rounds"
    )
    for words in ("fedavg", "scaffold", "scaffold fl_scene.client_memory=disk"):
        cost = cost_of_keeping(*f"algorithm={words}".split())
        parts = f"records {cost.records:.2f} s, checkpoints {cost.checkpoints:.2f} s of {cost.rounds:.0f} s"
        console.print(f"  {words:<52}{cost.share:7.2%}   {parts}")


def start() -> None:
    seconds = min(start_up() for _ in range(2))
    console.print(f"\n[bold]Start-up[/bold] to the first round, MNIST on disk: {seconds:.1f} s")


PARTS = {
    part.__name__: part for part in (rounds, ranks, decoding, keeping, probing, sweeps, start, memory, many_clients)
}

chosen = sys.argv[1:] or list(PARTS)
if strange := set(chosen) - PARTS.keys():
    sys.exit(f"benchmarks: parts must be of {', '.join(PARTS)}, got {', '.join(sorted(strange))}")
config.register(load_studies())
console.print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
for name in chosen:
    PARTS[name]()
