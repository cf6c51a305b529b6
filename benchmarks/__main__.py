"""make bench: measure speed and memory relative to a plain torch loop. ARGS="rounds ranks" selects parts.

Times on a busy machine mean little, so that most results are ratios of alternating measurements.
"""

import sys

import torch

from benchmarks.algorithm_cost import algorithm_costs
from benchmarks.decoding import PNGS, first_and_second_start
from benchmarks.jobs import NARROW_VGG9, ONE_RANK, OVER_RANKS, THE_PAPERS, jobs_of
from benchmarks.many_clients import scaling
from benchmarks.mask_cost import mask_cost
from benchmarks.parallel_jobs import PARALLEL, SEQUENTIAL, sweep
from benchmarks.probing_cost import probing_cost
from benchmarks.processes import peak_memory, peak_memory_over_ranks
from benchmarks.ranks import over_ranks
from benchmarks.round_profile import profile_round
from benchmarks.rounds import against_floor
from benchmarks.startup import REFUSALS, seconds_to_end, seconds_to_first_round
from benchmarks.tracking_cost import tracking_cost
from fedpan_exp import config
from fedpan_exp.probes import PROBES
from fedpan_exp.studies import load_studies
from fedpan_exp.system.console import console


def rounds() -> None:
    console.print("[bold]One round[/bold]; the floor is a plain torch loop with the steps of FedAvg")
    console.print(f"  {'':52}{'floor':>9}{'ours':>9}{'ratio':>8}   difference")
    for name, (overrides, repeats) in (ONE_RANK | jobs_of(THE_PAPERS)).items():
        t = against_floor(overrides, repeats)
        console.print(f"  {name:<52}{t.floor:7.3f} s{t.ours:7.3f} s{t.ratio:8.3f}{t.overhead_us:9.0f} µs per step")


def algorithms() -> None:
    console.print("\n[bold]A round of each algorithm[/bold] relative to one of FedAvg, in turns, without evaluation")
    for name, network, comparison in algorithm_costs():
        low, median, high = comparison.quartiles()
        console.print(f"  {f'{name}, {network}':<52}{median:7.3f}   quartiles {low:.3f} to {high:.3f}")


def ranks() -> None:
    console.print("\n[bold]Clients over processes[/bold]: a round with evaluation, relative to the floor")
    console.print(f"  {'':52}{'floor':>9}{'1 rank':>9}{'2 ranks':>9}")
    for name, (overrides, repeats) in OVER_RANKS.items():
        timings = over_ranks(overrides, repeats)
        console.print(f"  {name:<52}{min(timings.floor):7.2f} s{timings.ratio(1):9.3f}{timings.ratio(2):9.3f}")
    one, two = (peak_memory_over_ranks("fl_scene.H=2", f"ranks={number}") for number in (1, 2))
    console.print(f"  peak memory, MLP 1024: 1 rank {one:.0f} MB, 2 ranks {two:.0f} MB, {two / one:.2f} times as much")


def profile() -> None:
    jobs = {
        "MLP 1024 on MNIST, K=100 R=0.1 E=5": (),
        "MLP 64 on MNIST, K=100 R=0.1 E=5": ("model.width=64",),
        "VGG9 x 0.25 on CIFAR-10, K=100 R=0.1 E=1": (*NARROW_VGG9, "fl_scene.R=0.1"),
    }
    for name, overrides in jobs.items():
        console.print(f"\n[bold]Where a round's time goes[/bold]: {name}, two processes, evaluation included")
        parts = profile_round(*overrides)
        for part, seconds in parts.items():
            console.print(f"  {part:<52}{1000 * seconds:8.1f} ms{seconds / sum(parts.values()):8.1%}")


def many_clients() -> None:
    console.print(
        "\n[bold]Many clients[/bold]: 10 per round of K virtual ones with 50 CIFAR-10 images each, MLP 64, E=5"
    )
    console.print(f"  {'':<20}{'first round':>16}{'peak memory':>14}{'a round':>12}{'to K=100':>10}")
    for row in scaling():
        name = f"K={row.clients:,}"
        start = f"{row.first_round_s:14.1f} s{row.peak_mb:11.0f} MB"
        console.print(f"  {name:<20}{start}{row.round_s * 1000:9.1f} ms{row.ratio:10.3f}")


def memory() -> None:
    small = ("model.width=64", "fl_scene.H=2", "fl_scene.E=1")
    console.print("\n[bold]Peak memory[/bold] by number of clients, MLP 64 on MNIST")
    for K, R in ((100, 0.1), (5000, 0.002), (1000, 0.1)):
        name = f"K={K}, {K * R:.0f} clients per round"
        console.print(f"  {name:<52}{peak_memory(*small, f'fl_scene.K={K}', f'fl_scene.R={R}'):7.0f} MB")

    train_500 = ("model.width=512", "fl_scene.K=500", "fl_scene.R=1", "fl_scene.H=1", "fl_scene.E=1")
    console.print("\n[bold]Peak memory[/bold] after training 500 clients, MLP 512 on MNIST")
    for name in ("fedavg", "scaffold fl_scene.client_memory=disk", "scaffold fl_scene.client_memory=memory"):
        console.print(f"  {name:<52}{peak_memory(*train_500, *f'algorithm={name}'.split()):7.0f} MB")


def decoding() -> None:
    first, second = first_and_second_start()
    console.print(f"\n[bold]{PNGS:,} PNGs[/bold] of 32x32")
    console.print(f"  first start {first:.2f} s, second {second:.3f} s: {first / second:.0f} times faster")


def sweeps() -> None:
    console.print("\n[bold]Sweep of four jobs[/bold], MLP 1024 on MNIST: hydra/launcher=cores against sequential jobs")
    parallel = sweep(PARALLEL)
    console.print(f"  {'parallel, one job per core':<52}{parallel.seconds:7.0f} s")
    sequential = {
        "sequential, one thread": sweep(SEQUENTIAL, "ranks=1", threads=1),
        "sequential, all threads": sweep(SEQUENTIAL, "ranks=1"),
        "sequential, one rank per core (the default)": sweep(SEQUENTIAL),
    }
    for name, result in sequential.items():
        ratio = result.seconds / parallel.seconds
        equal = "equal bit for bit" if result.weights == parallel.weights else "not equal bit for bit"
        console.print(f"  {name:<52}{result.seconds:7.0f} s, {ratio:.2f} times as long; weights {equal}")


def probing() -> None:
    console.print("\n[bold]Probes[/bold] in every third round, MLP 1024; relative to the same round without")
    identity = ("barrier", "matching_gap", "swap_cost")
    for names in (tuple(name for name in PROBES if name not in identity), *((name,) for name in identity)):
        cost = probing_cost(names=names)
        title = " ".join(names) if len(names) == 1 else f"the other {len(names)}"
        console.print(f"  {title:<52}probed rounds {cost.probed_rounds:.2f}, other rounds {cost.other_rounds:.3f}")


def masks() -> None:
    console.print("\n[bold]Entries that are not trained[/bold]: a step relative to one without")
    for network, job in {"MLP 1024": (), "VGG9 x 0.25": NARROW_VGG9}.items():
        for name, cost in {
            "pan=w_asym, 8 weights per neuron": mask_cost(job, "pan=w_asym"),
            "model.head=frozen": mask_cost(job, "model.head=frozen"),
            "algorithm=fedpfn, 40% of the weights": mask_cost(job, frozen=0.4),
            "none": mask_cost(job),
        }.items():
            console.print(f"  {f'{network}: {name}':<52}{cost:7.3f}")


def keeping() -> None:
    console.print(
        "\n[bold]Tracking[/bold]: records, offline W&B, a checkpoint every 10 rounds; relative to the time in rounds"
    )
    for name in ("fedavg", "scaffold", "scaffold fl_scene.client_memory=disk"):
        cost = tracking_cost(*f"algorithm={name}".split())
        parts = f"records {cost.records:.2f} s, checkpoints {cost.checkpoints:.2f} s, rounds {cost.rounds:.0f} s"
        console.print(f"  {name:<52}{cost.ratio:7.2%}   {parts}")


def startup() -> None:
    console.print("\n[bold]Start-up[/bold], wall-clock time, the best of three")
    for name, arg in REFUSALS.items():
        console.print(f"  {name:<60}{min(seconds_to_end(arg) for _ in range(3)):7.2f} s")
    seconds = [(seconds_to_first_round("none"), seconds_to_first_round("wandb")) for _ in range(5)]  # in turns
    first, with_wandb = map(min, zip(*seconds, strict=True))
    console.print(f"  {'the first round of the default job, MNIST on disk':<60}{first:7.2f} s")
    added = sorted(wandb - none for none, wandb in seconds)
    spread = f"W&B adds {added[2]:.2f} s (five turns: {added[0]:.2f} to {added[-1]:.2f})"
    console.print(f"  {'the same with logger=wandb, offline':<60}{with_wandb:7.2f} s   {spread}")


PARTS = {
    part.__name__: part
    for part in (
        rounds,
        algorithms,
        ranks,
        profile,
        decoding,
        keeping,
        probing,
        masks,
        sweeps,
        startup,
        memory,
        many_clients,
    )
}

selected = sys.argv[1:] or list(PARTS)
if unknown := set(selected) - PARTS.keys():
    sys.exit(f"benchmarks: parts must be among {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
config.register(load_studies())
console.print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
for part in selected:
    PARTS[part]()
