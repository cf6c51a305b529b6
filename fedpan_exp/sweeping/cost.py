"""What federated runs would cost: from earlier runs of their kind, else from counted operations and a short timing."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from fedpan_exp.algorithms import ClientContext, ClientUpdate, ServerState
from fedpan_exp.config import Experiment
from fedpan_exp.data import VIRTUAL
from fedpan_exp.data.dataset import SOURCES
from fedpan_exp.federation import count_ranks
from fedpan_exp.models import Pan
from fedpan_exp.report.frame import records
from fedpan_exp.studies.shared.setup import make_trainer
from fedpan_exp.sweeping.jobs import Job
from fedpan_exp.system.console import quietly
from fedpan_exp.tracking.runs import find_runs
from fedpan_exp.training import FlatNet, classification_loss

MIN_ROUNDS = 2  # of an earlier run: its first round warms up
SPEED = (  # settings that decide the time per sample
    *("dataset.name", "algorithm.name", "model", "fl_scene.B"),
    *("fabric.accelerator", "fabric.devices", "fabric.precision", "fabric.tf32"),
)
TIMED_OPERATIONS, MAX_STEPS = 1e10, 20  # of one timing, at most about: less than a second on one core
TIMING_S = 0.5
RECORD_BYTES = 500  # per round
PLOT_BYTES = 250_000  # per run


class Cost(NamedTuple):
    """What the rest of one run would cost."""

    seconds: float
    disk_bytes: float
    sent_bytes: float


class DatasetSize(NamedTuple):
    users: int  # 0 if the dataset does not name them
    images: int  # for training


class Work(NamedTuple):
    """What a network and an algorithm take."""

    operations: int  # per training sample
    sent_bytes: int  # per client and round, up and down
    weight_bytes: int


def estimate_costs(jobs: Sequence[Job]) -> list[Cost | None]:
    """Estimate each run; None where its clients are unknown without its dataset."""
    earlier = earlier_speeds({Path(job.experiment.runs) for job in jobs})
    known: dict[str, Any] = {}  # what jobs have in common is found out once

    def once(function: Callable[..., Any], key: str, *args: Any) -> Any:
        name = function.__name__ + key
        if name not in known:
            known[name] = function(*args)
        return known[name]

    costs: list[Cost | None] = []
    for job in jobs:
        experiment, scene, settings = job.experiment, job.experiment.fl_scene, job.record.settings
        size: DatasetSize | None = once(dataset_size, _key(settings, ("dataset",)), experiment)
        if size is None:
            costs.append(None)
            continue
        clients, speed_key = scene.K or size.users, _key(settings, SPEED)
        cohort_size = scene.cohort_size(clients)
        work = once(count_work, speed_key, experiment, clients)
        visits = job.rounds_left * cohort_size
        samples = scene.samples if scene.partition == VIRTUAL else size.images * (1 - scene.reserve) / clients
        samples *= 1 - scene.local_test  # per client, on average
        trained = visits * scene.local_samples(samples)
        if speed_key in earlier:
            seconds = trained * earlier[speed_key]
        else:
            ranks = count_ranks(experiment.ranks, cohort_size, experiment.fabric.make().device)
            family = type(experiment.model).__name__ + _key(settings, ("fabric",))
            sample_s = work.operations / once(measure_speed, family, experiment, work.operations, ranks)
            seconds = sample_s * (trained / ranks + job.rounds_left * experiment.algorithm.server_samples)
        costs.append(Cost(seconds, scene.H * RECORD_BYTES + work.weight_bytes + PLOT_BYTES, visits * work.sent_bytes))
    return costs


def count_work(experiment: Experiment, clients: int) -> Work:
    """Count without values where the algorithm's hooks work so; some, such as matching, look at the weights."""
    try:
        return count_on("meta", experiment, clients)
    except RuntimeError:  # of torch, for a tensor without values
        return count_on("cpu", experiment, clients)


def count_on(device: str, experiment: Experiment, clients: int) -> Work:
    """Let the algorithm's own hooks train one batch. PANs are off: they take no matrix product."""
    algorithm, samples = experiment.algorithm, 2  # BatchNorm cannot train on one sample
    with torch.device(device):
        net = FlatNet(experiment.build(Pan()))
        batch = torch.zeros(samples, *experiment.dataset.shape), torch.zeros(samples, dtype=torch.long)
    label_counts = torch.ones(experiment.dataset.classes, dtype=torch.long)  # on the CPU, as in a run
    server = ServerState(net.weights, net.buffers, clients)
    client = ClientContext(server, {}, samples, label_counts=label_counts, accumulated_lr=1.0)
    algorithm.init_server(server, net)
    algorithm.init_client(net, client)
    with FlopCounterMode(display=False) as counter:
        algorithm.loss(net, *batch, client).backward()
        algorithm.adjust_gradient(net, client)
    extras = algorithm.finish_client(net, client)
    up = ClientUpdate(net.weights, net.buffers, 1.0, extras).bytes
    down = sum(vector.nbytes for vector in algorithm.payload(server))
    return Work(counter.get_total_flops() // samples, up + down, net.weights.nbytes + net.buffers.nbytes)


def measure_speed(experiment: Experiment, operations: int, ranks: int) -> float:
    """Time a few steps on random input; return operations per second of one of the processes."""
    with quietly():
        trainer = make_trainer(experiment, experiment.network())
    device = trainer.fabric.device
    B = max(2, min(experiment.fl_scene.B, int(TIMED_OPERATIONS / operations)))
    steps = max(1, min(MAX_STEPS, int(TIMED_OPERATIONS / operations / B)))
    batch = torch.randn(B, *experiment.dataset.shape, device=device), torch.zeros(B, dtype=torch.long, device=device)

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return classification_loss(trainer.net(x), y)

    def fit() -> None:
        trainer.fit([batch] * steps, round_idx=1, loss=loss)

    threads = 1 if ranks > 1 else torch.get_num_threads()  # as in each process of a run
    seconds = Timer("fit()", globals={"fit": fit}, num_threads=threads).blocked_autorange(min_run_time=TIMING_S).median
    return steps * B * operations / seconds


def dataset_size(experiment: Experiment) -> DatasetSize | None:
    """The published size of the dataset, else that of its files; None if there are none."""
    dataset = experiment.dataset
    source = SOURCES.get(dataset.name)
    if source and source.counts:
        return DatasetSize(0, dataset.samples or source.counts[0])
    if not dataset.is_available:
        return None
    with quietly():
        data = dataset.load(experiment.seed)
    return DatasetSize(len(data.users), len(data.train))


def earlier_speeds(folders: set[Path]) -> dict[str, float]:
    """Seconds per training sample and epoch in earlier runs, by the settings that decide them."""
    speeds: dict[str, float] = {}
    for run in find_runs([folder for folder in folders if folder.is_dir()]):
        rounds = records(run.folder).reindex(columns=["time/round_s", "train/samples"]).dropna()
        if run.settings and len(rounds) >= MIN_ROUNDS:
            seconds, samples = rounds.sum()
            speeds.setdefault(_key(run.settings, SPEED), seconds / samples)
    return speeds


def _key(settings: dict[str, Any], names: Sequence[str]) -> str:
    """Equal for runs that agree in these settings. Runs of earlier versions lack some: they default to 0 or null."""
    values = []
    for group, _, name in (name.partition(".") for name in names):
        section = settings.get(group)
        items = section.items() if isinstance(section, dict) else ()
        present = {key: value for key, value in items if value is not None}
        values.append(present.get(name, 0) if name else present)
    return json.dumps(values, sort_keys=True)
