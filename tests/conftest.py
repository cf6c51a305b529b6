"""Shared by tests: composing an experiment, calling the command line, a small federated task."""

import gc
import os
import tempfile
from collections.abc import Callable, Generator, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from processes import child, ended

from fedpan_exp import cli, config
from fedpan_exp.algorithms import ALGORITHMS, FedAvg
from fedpan_exp.data import Clients, ImageTensors, ImageTransform
from fedpan_exp.federation import ClientStates, FederatedTask, Round, Scene, federate, make_executor
from fedpan_exp.models import Network, initialise
from fedpan_exp.studies import load_studies
from fedpan_exp.system.rng import rng
from fedpan_exp.training import Classifier, FabricSettings, LocalTrainer, Training

TRACKIO = tempfile.TemporaryDirectory(prefix="trackio-")  # read once, when Trackio is imported
torch.set_num_threads(1)  # several tests run in parallel, and each may start processes
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.pop("FEDPAN_DATA", None)
os.environ["WANDB_MODE"] = "disabled"  # tests of W&B set the mode
os.environ["TRACKIO_DIR"] = TRACKIO.name
config.register(load_studies())


experiment = config.experiment
WILD = (  # diverges, after some rounds
    *("training.lr=1", "training.weight_decay=9", "training.warmup=none"),
    *("fl_scene.H=60", "fl_scene.E=1", "fl_scene.B=64"),
)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from searching all imported modules again and again: an eighth of a run's time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # Hypothesis asks at the end what refers to its generators


def with_slow_groups(groups: Iterable[str]) -> list[Any]:
    """For parametrize, if all options of each group are composed: fast where each option has a schema of its own."""
    fast = ("algorithm", "study")
    return [group if group in fast else pytest.param(group, marks=pytest.mark.slow) for group in groups]


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def runs(self) -> list[Path]:
        """Run folders, newest last."""
        return sorted((p for p in Path("runs").glob("*-*") if p.is_dir()), key=lambda p: p.stat().st_mtime)


@pytest.fixture
def call_main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable[..., CommandResult]:
    """Call the `main` of a command with arguments, in this process: importing torch takes longer than a run."""
    monkeypatch.setenv("COLUMNS", "300")

    def call(main: Callable[[], None], *args: object) -> CommandResult:
        monkeypatch.setattr("sys.argv", ["fedpan_exp", *map(str, args)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        return CommandResult(code, *capsys.readouterr())

    return call


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call_main) -> Callable[..., CommandResult]:
    """Call `python -m fedpan_exp` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return partial(call_main, cli.main)


@pytest.fixture(scope="session")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder in which a command has run undisturbed: the same one for all tests that compare with it."""

    @cache
    def run(*overrides: str) -> Path:
        folder = tmp_path_factory.mktemp("straight")
        assert ended(child(folder, *overrides)) == 0
        return folder

    return run


def run_rounds(
    algorithm: FedAvg,
    trainer: LocalTrainer,
    clients: Clients,
    scene: Scene,
    ranks: int = 1,
    states: ClientStates | None = None,
    timeout: float = 600,
    **changes: Any,
) -> Generator[Round]:
    """Run a federated task; `changes` are further fields of FederatedTask."""
    defaults = {"seed": 0, "unlabelled": random_images(20, clients.images.x.shape[1:], seed=9).x}
    task = FederatedTask(algorithm, trainer, clients, scene, **{**defaults, **changes})
    return federate(task, make_executor(task, ranks, states, timeout=timeout))


def make_algorithm(name: str, **settings: Any) -> FedAvg:
    """An algorithm by name, with few steps where it trains on the server."""
    return ALGORITHMS[name](**({"steps": 3} if name == "feddf" else {}), **settings)


PLAIN_PIXELS = ImageTransform([0.0], [1.0])


def random_images(
    samples: int, shape: tuple[int, int, int] = (1, 4, 4), classes: int = 3, seed: int = 0
) -> ImageTensors:
    g = rng(seed, "test images")
    return ImageTensors(
        torch.randint(0, 256, (samples, *shape), dtype=torch.uint8, generator=g),
        torch.randint(0, classes, (samples,), generator=g),
    )


def clients_of(images: ImageTensors, sizes: list[int], local_test: float = 0.0, seed: int = 0) -> Clients:
    parts = list(torch.arange(sum(sizes)).split(sizes))
    return Clients(images, PLAIN_PIXELS, parts, local_test, seed)


def trainer_of(net: Network, training: Training | None = None) -> LocalTrainer:
    initialise(net, rng(0, "weights"))
    module = Classifier(net, training or Training(warmup="none"))
    return LocalTrainer(FabricSettings(accelerator="cpu").make(), module, PLAIN_PIXELS)
