"""Check that one process, several processes and the GPUs of this machine agree, and show how fast they are.

Two small jobs are trained in each of these modes, and their final weights compared. The table is worth sending back.
"""

import argparse
import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedpan_exp import api
from fedpan_exp.federation import torchrun
from fedpan_exp.system.console import console, error_console, progress_bar
from fedpan_exp.system.errors import UserError

# Largest deviation, relative to the weights' change: another device rounds differently, and training amplifies it.
TOLERANCE = 0.02
LOW_PRECISION_TOLERANCE = 0.5  # shows gross mistakes only
CLIENTS = 6  # per round
COMMON = (
    *(
        "logger=none",
        "fl_scene.K=12",
        "fl_scene.R=0.5",
        "fl_scene.H=4",
        "fl_scene.B=16",
        "fl_scene.E=1",
        "fl_scene.partition=iid",
    ),
    *("checkpoint.every=0", "eval_every=4", "model.init=he", "pan=mul"),
)


class Job(NamedTuple):
    name: str
    settings: tuple[str, ...]


class Mode(NamedTuple):
    """Where and by how many processes a job is trained."""

    name: str
    settings: tuple[str, ...]
    processes: int | None = None  # of torchrun; None: it starts without torchrun
    tolerance: float = 0.0  # largest deviation from the first mode


@dataclass
class Measurement:
    mode: Mode
    seconds: float  # per round, the median after the first
    images_per_second: float
    deviation: float  # of the weights from those of the first mode, relative to their change by training

    @property
    def agrees(self) -> bool:
        return self.deviation <= self.mode.tolerance


def main() -> None:
    argparse.ArgumentParser(prog="python -m fedpan_exp.selftest", description=__doc__).parse_args()
    torch.set_num_threads(1)  # as in each of several processes: the number of threads changes the last bits
    try:
        with tempfile.TemporaryDirectory(prefix="fedpan_exp-selftest-") as folder:
            results = run_all(make_jobs(Path(folder)), find_modes(), Path(folder))
    except UserError as error:
        error_console.print(f"fedpan_exp: {error}", markup=False)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    print_results(results)
    raise SystemExit(0 if agree(results) else 1)


def make_jobs(folder: Path) -> list[Job]:
    """An MLP on scikit-learn's digits, and a narrow VGG9 on coloured noise with a bright spot per class."""
    rng = np.random.default_rng(0)
    y = np.arange(960) % 10
    x = rng.integers(0, 128, (len(y), 32, 32, 3), dtype=np.uint8)
    for image, label in zip(x, y, strict=True):
        image[8 + 16 * (label % 2) :][:6, 3 * label :][:, :4] += 100
    np.savez(folder / "images.npz", x_train=x[:768], y_train=y[:768], x_test=x[768:], y_test=y[768:])
    images = ("dataset=npz", f"dataset.root={folder / 'images.npz'}", "dataset.crop_padding=4", "dataset.flip=true")
    return [
        Job("FedAvg, MLP 256", ("dataset=digits", "model.width=256", *COMMON)),
        Job("Scaffold, VGG9 / 4", (*images, "model=vgg9", "model.width_factor=0.25", "algorithm=scaffold", *COMMON)),
    ]


def find_modes() -> list[Mode]:
    """What this machine has; the first mode is the reference."""
    cpu, cores, gpus = ("fabric.accelerator=cpu",), os.cpu_count() or 1, torch.cuda.device_count()
    workers = min(max(2, cores), CLIENTS)
    modes = [
        Mode("CPU, 1 process", (*cpu, "ranks=1")),
        Mode(f"CPU, {workers} processes", (*cpu, f"ranks={workers}")),
        Mode("CPU, torchrun 2", cpu, processes=2),
    ]
    if gpus:  # in processes of their own: this one must not use CUDA before it forks
        cuda = ("fabric.accelerator=cuda",)
        modes += [Mode(f"GPU, torchrun {n}", cuda, n, TOLERANCE) for n in sorted({1, 2, 4, min(gpus, CLIENTS)})]
        modes.append(Mode("GPU, TF32", (*cuda, "fabric.tf32=true"), 1, LOW_PRECISION_TOLERANCE))
        modes.append(Mode("GPU, 16-mixed", (*cuda, "fabric.precision=16-mixed"), 1, LOW_PRECISION_TOLERANCE))
    return modes


def run_all(jobs: Sequence[Job], modes: Sequence[Mode], folder: Path) -> dict[str, list[Measurement]]:
    """The measurements of every job, in the order of the modes."""
    results = {}
    with progress_bar("selftest", len(jobs) * len(modes)) as progress:
        for number, job in enumerate(jobs):
            runs: list[api.Result] = []
            for mode in modes:
                progress.describe(f"{job.name}: {mode.name}")
                runs.append(train(job, mode, folder / f"{number}-{len(runs)}"))
                progress.advance(1)
            initial = api.experiment(*job.settings).network().state_dict()
            results[job.name] = [measure(mode, run, runs[0], initial) for mode, run in zip(modes, runs, strict=True)]
    return results


def train(job: Job, mode: Mode, folder: Path) -> api.Result:
    settings = (*job.settings, *mode.settings, f"runs={folder}")
    if mode.processes:
        command = [*torchrun.command(mode.processes), "-m", "fedpan_exp", *settings]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(f"{job.name} failed with {mode.name}, the last lines of its output:\n{done.stderr[-3000:]}")
    return api.run(*settings)  # after torchrun: returns the finished run


def measure(mode: Mode, run: api.Result, reference: api.Result, initial: Mapping[str, Tensor]) -> Measurement:
    rounds = run.records.iloc[1:]
    seconds = float(rounds["time/round_s"].median())
    deviation = distance(run.weights, reference.weights) / distance(reference.weights, initial)
    return Measurement(mode, seconds, float(rounds["train/samples"].median()) / seconds, deviation)


def distance(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """The Euclidean distance of two states, over their floating-point tensors."""
    pairs = [(tensor.double(), other[name].double()) for name, tensor in one.items() if tensor.is_floating_point()]
    return float(torch.stack([(a - b).norm() for a, b in pairs]).norm())


def print_results(results: Mapping[str, Sequence[Measurement]]) -> None:
    console.print(f"{describe_machine()}\n", markup=False)
    console.print(f"{'job':<20}{'mode':<18}{'s per round':>12}{'images/s':>10}{'deviation':>11}")
    for name, measured in results.items():
        for m in measured:
            verdict = "" if m.agrees else "  DISAGREES"
            speed = f"{m.seconds:>12.4f}{m.images_per_second:>10,.0f}"
            console.print(f"{name:<20}{m.mode.name:<18}{speed}{m.deviation:>11.1g}{verdict}", markup=False)
    if agree(results):
        console.print("All modes agree.")
    else:
        console.print("Some modes do not give the same weights: please send this table to the authors.")


def agree(results: Mapping[str, Sequence[Measurement]]) -> bool:
    return all(m.agrees for measured in results.values() for m in measured)


def describe_machine() -> str:
    gpus = [torch.cuda.get_device_properties(gpu) for gpu in range(torch.cuda.device_count())]
    names = ", ".join(f"{gpu.name} {gpu.total_memory / 1024**3:.0f} GB" for gpu in gpus) or "no GPU"
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {names}; {versions}"


if __name__ == "__main__":
    main()
