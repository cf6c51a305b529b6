"""GPUs, on a machine without one: training on torch's meta device, which GPU a process uses, loss scaling."""

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest
import torch
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from lightning import Fabric
from lightning.fabric.accelerators import CPUAccelerator
from lightning.fabric.plugins import MixedPrecision
from lightning.fabric.strategies import SingleDeviceStrategy
from omegaconf import OmegaConf
from processes import ended, wait_for
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from conftest import PLAIN_PIXELS, clients_of, make_algorithm, random_images, run_rounds
from fedpan_exp.algorithms import ALGORITHMS, ClientContext, FedAvg
from fedpan_exp.algorithms.fedprox import FedProx
from fedpan_exp.data import Batch, ImageTransform
from fedpan_exp.federation import FederatedTask, Scene, torchrun
from fedpan_exp.federation.client import train_client
from fedpan_exp.federation.executors.cohort_sum import CohortSum
from fedpan_exp.models import Network, Pan, initialise
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.resnet import ResNet
from fedpan_exp.sweeping.sweeper import JobTask
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.paths import CONF
from fedpan_exp.system.rng import rng
from fedpan_exp.training import (
    Classifier,
    FabricSettings,
    FlatNet,
    LocalTrainer,
    Training,
    claim_gpu,
    gpu_of,
    processes_that_fit,
    visible_gpus,
)
from fedpan_exp.training.loss_scaling import INITIAL_SCALE

META = torch.device("meta")


class Device(TorchDispatchMode):
    """Lets the meta device stand for a GPU: counts how often the host waits for it, and refuses stray CPU tensors.

    Numbers without dimensions may be anywhere, as on a GPU.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits = self.copies = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [value for value in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        used = {tensor.device.type for tensor in tensors if tensor.dim()}
        aten = torch.ops.aten
        if func in (aten._to_copy.default, aten.copy_.default):
            target = torch.device((kwargs or {}).get("device") or args[0].device)
            self.copies += target == META and args[-1].device.type == "cpu"
        elif len(used) > 1:
            raise RuntimeError(f"{func} on both the CPU and the device")
        if func is aten._local_scalar_dense.default and args[0].is_meta:
            self.waits += 1
            return 0.0
        if func is aten._fused_sgd_.default and used == {"meta"}:  # has no kernel for meta
            return None
        return func(*args, **(kwargs or {}))


class MetaAccelerator(CPUAccelerator):
    def setup_device(self, device: torch.device) -> None:
        assert device == META


@dataclass
class Steps:
    """What happened between a client's first batch and its last step."""

    waits: int
    copies: int
    steps: int


def train_on_meta(algorithm: FedAvg, net: Network | None = None, plugins: Sequence[Any] = (), **training: Any) -> Steps:
    """Train a client for two epochs of four batches."""
    net = net or ResNet(1, 4, 1, 3, "bn", Pan("mul", A=0.2))
    initialise(net, rng(0, "weights"))
    transform = ImageTransform([0.5], [0.25], crop_padding=1, flip=True, device=META)
    clients = clients_of(random_images(30, shape=(1, 8, 8)), [30])
    clients.images, clients.transform = clients.images.to(META), transform
    fabric = Fabric(strategy=SingleDeviceStrategy(META, MetaAccelerator()), plugins=[*plugins])
    trainer = LocalTrainer(fabric, Classifier(net.to(META), Training(**training)), transform)
    device, seen = Device(), []

    def watched(batches: Iterable[Batch]) -> Iterator[Batch]:
        seen.append((device.waits, device.copies))
        yield from batches
        seen.append((device.waits, device.copies))

    with device:
        task = FederatedTask(algorithm, trainer, clients, Scene(K=1, R=1.0, E=2, B=8, H=1), seed=0)
        server = task.init_server()
        client = train_client(task, server, 0, {}, 1, watched)
        total = CohortSum(server, needs_models=False)
        total.add(client)
        torch.cat(total.vectors())  # as they are added up over ranks
    (waits, copies), (waits_after, copies_after) = seen
    return Steps(waits_after - waits, copies_after - copies, client.fit.steps)


@pytest.mark.parametrize("name", sorted(ALGORITHMS.keys() - {"fedma", "matched"}))  # those match on the CPU
def test_the_host_does_not_wait_for_the_device_while_a_client_trains(name):
    """Its indices are sent to the device, and per epoch, in one copy, the order of its images and the draws."""
    assert train_on_meta(make_algorithm(name)) == Steps(waits=0, copies=3, steps=8)


@pytest.mark.parametrize("training", [{"clip": 1.0}, {"weight_decay": 0.1}, {"momentum": 0.0}], ids=str)
@pytest.mark.parametrize("algorithm", [FedAvg(), FedProx("fedprox", mu=0.1)], ids=lambda algorithm: algorithm.name)
def test_no_setting_of_training_makes_the_host_wait(algorithm, training):
    assert train_on_meta(algorithm, **training) == Steps(waits=0, copies=3, steps=8)


@pytest.mark.parametrize("plugins", [[], [MixedPrecision("16-mixed", "cpu")]], ids=["32-true", "16-mixed"])
def test_plain_sgd_and_loss_scaling_do_not_make_the_host_wait(monkeypatch, plugins):
    monkeypatch.setattr(
        import_module("torch.optim.optimizer"), "_get_fused_kernels_supported_devices", lambda: ["meta"]
    )
    steps = train_on_meta(FedProx(mu=0.1), plugins=plugins, fast=False, clip=1.0)
    assert steps == Steps(waits=0, copies=3, steps=8)


def test_an_mlp_does_not_make_the_host_wait():
    net = MLP(64, 512, 2, 3, Pan())
    assert train_on_meta(FedAvg(), net, clip=1.0) == Steps(waits=0, copies=3, steps=8)


def test_images_move_with_their_users():
    """Otherwise samples of them could not be drawn by indices on the device."""
    images = random_images(6)
    images.users = torch.arange(6)
    assert images.to(META)[torch.zeros(2, dtype=torch.long, device=META)].users.shape == (2,)


class Waiting(FedAvg):
    def loss(self, net: FlatNet, x: Tensor, y: Tensor, client: ClientContext) -> Tensor:
        value = super().loss(net, x, y, client)
        value.item()
        return value


class Stray(FedAvg):
    def loss(self, net: FlatNet, x: Tensor, y: Tensor, client: ClientContext) -> Tensor:
        return super().loss(net, x.index_select(0, torch.arange(len(x))), y, client)


def test_waiting_and_cpu_tensors_are_noticed():
    assert train_on_meta(Waiting()).waits == 8
    with pytest.raises(RuntimeError, match="on both the CPU and the device"):
        train_on_meta(Stray())


def test_processes_of_a_machine_take_turns_at_its_gpus():
    assert [gpu_of(local_rank, 2) for local_rank in range(5)] == [0, 1, 0, 1, 0]
    assert [gpu_of(local_rank, 1) for local_rank in range(3)] == [0, 0, 0]
    assert gpu_of(3, 0) is None


def test_ranks_that_share_a_gpu_use_gloo():
    assert torchrun.backend(each_has_own_gpu=True) == "cpu:gloo,cuda:nccl"
    assert torchrun.backend(each_has_own_gpu=False) == "gloo"


def test_memory_cores_clients_and_a_maximum_bound_the_processes_of_a_gpu():
    GB = 1024**3
    assert processes_that_fit(2 * GB, free_bytes=6 * GB, clients=10, cores=8) == 3
    assert processes_that_fit(2 * GB, free_bytes=1 * GB, clients=10, cores=8) == 1
    assert processes_that_fit(GB // 10, free_bytes=70 * GB, clients=10, cores=8) == 5
    assert processes_that_fit(GB // 10, free_bytes=70 * GB, clients=3, cores=8) == 3
    assert processes_that_fit(GB // 10, free_bytes=70 * GB, clients=10, cores=2) == 2


def test_every_process_of_a_launcher_gets_the_gpu_with_the_fewest(tmp_path):
    """Three processes on two GPUs; when one has been killed, the next process gets its place."""

    def start() -> int:
        process = os.fork()
        if not process:
            gpu = claim_gpu(["3", "GPU-8a"], tmp_path)
            is_first = claim_gpu(["3", "GPU-8a"], tmp_path) is None  # it keeps its GPU for all of its jobs
            (tmp_path / f"{os.getpid()}.txt").write_text(f"{gpu} {os.environ['CUDA_VISIBLE_DEVICES']} {is_first}.")
            signal.pause()
        wait_for(lambda: claimed(process).endswith("."))
        return process

    def claimed(process: int) -> str:
        path = tmp_path / f"{process}.txt"
        return path.read_text() if path.exists() else ""

    def kill(process: int) -> None:
        os.kill(process, signal.SIGKILL)
        ended(process)

    one, two, three = start(), start(), start()
    kill(two)
    four = start()
    for process in (one, three, four):
        kill(process)
    assert [claimed(process) for process in (one, two, three, four)] == [
        *("3 3 True.", "GPU-8a GPU-8a True."),
        *("3 3 True.", "GPU-8a GPU-8a True."),
    ]


def test_the_gpus_that_a_process_may_use(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-1b")
    assert visible_gpus() == ["5", "GPU-1b"]


def test_16_mixed_needs_a_gpu():
    with pytest.raises(
        ConfigError, match=r"fabric\.precision must be bf16-mixed where there is no CUDA GPU, got 16-mixed"
    ):
        FabricSettings(accelerator="cpu", precision="16-mixed").make()


def test_tf32_is_a_setting():
    flags = torch.backends.cuda.matmul, torch.backends.cudnn
    for tf32 in (True, False):
        FabricSettings(accelerator="cpu", tf32=tf32).make()
        assert [flag.allow_tf32 for flag in flags] == [tf32, tf32]


class ScaledPrecision(MixedPrecision):
    """The scaling of 16-mixed on the CPU, with computations in 32 bits."""

    def __init__(self) -> None:
        super().__init__("16-mixed", "cpu")

    def forward_context(self) -> AbstractContextManager:
        return nullcontext()

    def convert_input(self, data: Any) -> Any:
        return data


def rounds(algorithm: FedAvg, scaled: bool, steps: list[float] | None = None, **training: Any) -> LocalTrainer:
    """Two rounds of two clients; afterwards the trainer's network has the server's weights."""
    net = ResNet(1, 4, 1, 3, "gn2", Pan("mul", A=0.2))
    initialise(net, rng(0, "weights"))
    plugins = [ScaledPrecision()] if scaled else []
    fabric = Fabric(accelerator="cpu", devices=1, plugins=plugins)
    trainer = LocalTrainer(fabric, Classifier(net, Training(fast=False, **training)), PLAIN_PIXELS)
    clients = clients_of(random_images(40, shape=(1, 8, 8)), [25, 15])
    for round_ in run_rounds(algorithm, trainer, clients, Scene(K=2, R=1.0, E=1, H=2, B=8)):
        trainer.net.load(round_.server.weights, round_.server.buffers)
    return trainer


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold", "feddyn", "feddf", "moon"])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_loss_scaling_changes_no_bit(name, clip):
    """The scale is a power of 2, and gradients are unscaled before anything is added to them or clipped."""
    plain, scaled = (
        rounds(make_algorithm(name), is_scaled, clip=clip, weight_decay=0.01) for is_scaled in (False, True)
    )
    assert scaled.scaling.is_active
    assert torch.equal(scaled.net.weights, plain.net.weights)


class Overflowing(FedAvg):
    """The gradients of a client's first step overflow."""

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        client.scratch["steps"] = 0

    def loss(self, net: FlatNet, x: Tensor, y: Tensor, client: ClientContext) -> Tensor:
        client.scratch["steps"] += 1
        value = super().loss(net, x, y, client)
        return value * 1e36 if client.scratch["steps"] == 1 else value


class SkipsFirst(FedAvg):
    """The same, without the first step, whose batch has no effect."""

    def init_client(self, net: FlatNet, client: ClientContext) -> None:
        client.scratch["steps"] = 0

    def loss(self, net: FlatNet, x: Tensor, y: Tensor, client: ClientContext) -> Tensor:
        client.scratch["steps"] += 1
        return super().loss(net, x, y, client) * (client.scratch["steps"] > 1)


def test_a_step_that_overflows_is_skipped_and_the_scale_is_halved():
    scaled = rounds(Overflowing(), True)
    assert torch.equal(scaled.net.weights, rounds(SkipsFirst(), False).net.weights)
    precision = scaled.fabric.strategy.precision
    assert isinstance(precision, MixedPrecision)
    assert precision.scaler.get_scale() == INITIAL_SCALE / 2  # in every client anew


def test_jobs_of_a_launcher_claim_a_gpu_unless_they_name_their_device(monkeypatch, tmp_path):
    claims = []
    monkeypatch.setattr("fedpan_exp.sweeping.sweeper.claim_gpu", lambda: claims.append("claimed"))
    cfg = OmegaConf.create({"fabric": {"accelerator": "auto", "devices": 1}})
    for is_local, changes in ((False, {}), (True, {}), (False, {"devices": [1]}), (False, {"accelerator": "cpu"})):
        job = JobTask(lambda _: None, is_local, stop_file=None)
        assert job(OmegaConf.merge(cfg, {"fabric": changes})).error is None
    assert claims == ["claimed"]


@pytest.mark.parametrize("gpus", [0, 1, 4])
def test_the_launcher_of_gpus_runs_one_job_per_gpu(monkeypatch, gpus):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        master = loader.load_configuration("config", ["hydra/launcher=gpus"], run_mode=RunMode.MULTIRUN)
    assert master.hydra.launcher.n_jobs == max(1, gpus)


def test_a_run_on_a_gpu_says_how_many_processes_would_fit(monkeypatch):
    GB = 1024**3
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (6 * GB, 24 * GB))
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda _: 2 * GB)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert "--nproc-per-node=6 " in str(torchrun.advice(torch.device("cuda:0"), clients=10))
    assert torchrun.advice(torch.device("cuda:0"), clients=1) is None
    assert torchrun.advice(torch.device("cpu"), clients=10) is None
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "0")
    assert torchrun.advice(torch.device("cuda:0"), clients=10) is None
