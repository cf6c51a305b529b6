"""make bench: one federated round against a plain torch loop, start-up, memory.

Times on a busy machine mean little; ratios of times taken in turns mean more. Best of several.
"""

import torch

from benchmarks.processes import peak_memory, start_up
from benchmarks.rounds import against_floor
from fedpan_exp import config
from fedpan_exp.console import console

JOBS = {
    "MLP 1024 on MNIST, K=100 R=0.1 E=5 (the paper's)": ((), 5),
    "VGG9 on CIFAR-10, K=100 R=0.02 E=1": (("dataset=cifar10", "model=vgg9", "fl_scene.R=0.02", "fl_scene.E=1"), 5),
    "784-10 on MNIST: nothing but overhead": (("model.depth=0",), 20),
}


def main() -> None:
    config.register()
    console.print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    console.print("one round          floor      ours     ratio   over the floor")
    for name, (overrides, repeats) in JOBS.items():
        timing = against_floor(overrides, repeats)
        console.print(f"{name}", markup=False)
        console.print(
            f"{timing.floor:20.3f} s {timing.ours:7.3f} s {timing.ratio:9.3f} {timing.overhead_us:10.0f} µs a step"
        )
    console.print(f"\nstart-up to the first round, MNIST on disk: {min(start_up() for _ in range(2)):.1f} s")
    small = ("model.width=64", "fl_scene.H=2", "fl_scene.E=1")
    few, many, busy = (
        peak_memory(*small, f"fl_scene.K={K}", f"fl_scene.R={R}") for K, R in ((100, 0.1), (5000, 0.002), (1000, 0.1))
    )
    console.print(
        f"peak memory: K=100, 10 a round {few:.0f} MB; K=5000, 10 a round {many:.0f} MB ({many / few:.2f} x);"
    )
    console.print(f"             K=1000, 100 a round {busy:.0f} MB ({busy / few:.2f} x)")


main()
