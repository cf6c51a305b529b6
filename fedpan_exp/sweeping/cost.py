"""What federated runs would cost: from earlier runs of their kind, else from counted operations and a short timing."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from fedpan_exp.algorithms import ClientContext, ClientUpdate, ServerState
from fedpan_exp.config import Experiment
from fedpan_exp.data.dataset import SOURCES
from fedpan_exp.federation import count_ranks
from fedpan_exp.models import Pan
from fedpan_exp.studies.shared.setup import make_trainer
from fedpan_exp.sweeping.jobs import Job
from fedpan_exp.system.atomic_io import read_lines
from fedpan_exp.system.console import quietly
from fedpan_exp.tracking.runs import RunEntry, find_runs
from fedpan_exp.training import FlatNet, LocalTrainer, classification_loss

MIN_ROUNDS = 2  # of an earlier run: its first round warms up
STEP_OPERATIONS = 1e10  # of a timed step, at most about: less than a second on one core
TIMING_S = 0.5
RECORD_BYTES = 500  # per round
PLOT_BYTES = 250_000  # per run


class Cost(NamedTuple):
    """What is left of one run."""

    seconds: float
    disk_bytes: float
    sent_bytes: float


class Split(NamedTuple):
    clients: int  # K, or the number of users if clients are users
    samples: float  # per client, on average


class Earlier(NamedTuple):
    """What an earlier run tells about others of its kind."""

    sample_s: float  # seconds per training sample and epoch
    split: Split


@dataclass(frozen=True)
class Work:
    """What a network and an algorithm take, counted on the meta device: shapes without values."""

    operations: int  # per training sample
    sent_bytes: int  # per client and round, up and down
    weight_bytes: int


def estimate_costs(jobs: Sequence[Job]) -> list[Cost]:
    """Estimate each run, leaving out those whose clients are unknown without their dataset."""
    earlier = _earlier_runs({Path(job.experiment.runs) for job in jobs})
    splits: dict[str, Split | None] = {key: run.split for key, run in earlier.items()}
    works: dict[str, Work] = {}
    speeds: dict[str, float] = {}  # by family of networks
    costs = []
    for job in jobs:
        experiment, scene, settings = job.experiment, job.experiment.fl_scene, job.record.settings
        split_key, speed_key, family = _split_key(settings), _speed_key(settings), _family(settings, experiment)
        if split_key not in splits:
            splits[split_key] = _expected_split(experiment)
        split = splits[split_key]
        if split is None:
            continue
        cohort_size = scene.cohort_size(split.clients)
        if speed_key not in works:
            works[speed_key] = count_work(experiment, split.clients)
        work = works[speed_key]
        if speed_key in earlier:
            sample_s = earlier[speed_key].sample_s
        else:
            if family not in speeds:
                speeds[family] = measure_speed(experiment, work.operations, cohort_size)
            sample_s = work.operations / speeds[family] / _ranks(experiment, cohort_size)
        visits = (scene.H - RunEntry(job.record.folder).rounds) * cohort_size
        seconds = visits * scene.local_samples(split.samples) * sample_s
        costs.append(Cost(seconds, scene.H * RECORD_BYTES + work.weight_bytes + PLOT_BYTES, visits * work.sent_bytes))
    return costs


def count_work(experiment: Experiment, clients: int) -> Work:
    """Let the algorithm's own hooks train one batch without values. PANs are off: they take no matrix product."""
    algorithm, batch = experiment.algorithm, 2  # BatchNorm cannot train on one sample
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        net = FlatNet(experiment.build(Pan()))
        server = ServerState(net.weights, net.buffers, clients)
        algorithm.init_server(server)
        label_counts = torch.ones(experiment.dataset.classes, dtype=torch.long)
        client = ClientContext(server, {}, batch, label_counts=label_counts, accumulated_lr=1.0)
        algorithm.init_client(net, client)
        x, y = torch.empty(batch, *experiment.dataset.shape), torch.empty(batch, dtype=torch.long)
        algorithm.loss(net, x, y, client).backward()
        algorithm.adjust_gradient(net, client)
        extras = algorithm.finish_client(net, client)
    up = ClientUpdate(net.weights, net.buffers, 1.0, extras).bytes
    down = sum(vector.nbytes for vector in algorithm.payload(server))
    return Work(counter.get_total_flops() // batch, up + down, net.weights.nbytes + net.buffers.nbytes)


def measure_speed(experiment: Experiment, operations: int, cohort_size: int) -> float:
    """Time a few steps on random input; return operations per second of one process."""
    with quietly():
        trainer = make_trainer(experiment, experiment.network())
    device = trainer.fabric.device
    B = max(2, min(experiment.fl_scene.B, int(STEP_OPERATIONS / operations)))
    x, y = torch.randn(B, *experiment.dataset.shape, device=device), torch.zeros(B, dtype=torch.long, device=device)
    threads = torch.get_num_threads()
    if _ranks(experiment, cohort_size) > 1:
        torch.set_num_threads(1)  # as in each process of a run
    try:
        _time_steps(trainer, x, y, 1)  # warm-up
        seconds = _time_steps(trainer, x, y, 1)
        steps = max(1, int(TIMING_S / seconds))
        return steps * B * operations / _time_steps(trainer, x, y, steps)
    finally:
        torch.set_num_threads(threads)


def _time_steps(trainer: LocalTrainer, x: torch.Tensor, y: torch.Tensor, steps: int) -> float:
    started = time.perf_counter()
    trainer.fit(
        [(x, y)] * steps,
        round_idx=1,
        loss=lambda x, y: classification_loss(trainer.net(x), y),
        adjust_gradient=lambda: None,
    )
    return time.perf_counter() - started


def _ranks(experiment: Experiment, cohort_size: int) -> int:
    return count_ranks(experiment.ranks, cohort_size, experiment.fabric.make().device)


def _expected_split(experiment: Experiment) -> Split | None:
    """The clients and their samples from the published size of the dataset, else from its files, if there are any."""
    scene, dataset = experiment.fl_scene, experiment.dataset
    source = SOURCES.get(dataset.name)
    if source and source.counts:
        clients, images = scene.K, dataset.samples or source.counts[0]
    elif dataset.is_available:
        with quietly():
            data = dataset.load(experiment.seed)
        clients, images = scene.K or len(data.users), len(data.train)
    else:
        return None
    return Split(clients, images * (1 - scene.reserve) * (1 - scene.local_test) / clients)


def _earlier_runs(folders: set[Path]) -> dict[str, Earlier]:
    """Read what earlier runs tell, by the settings that decide their speed and by those that decide their split."""
    known: dict[str, Earlier] = {}
    for entry in find_runs([folder for folder in folders if folder.is_dir()]):
        if entry.settings and (earlier := read_earlier(entry)):
            known.setdefault(_speed_key(entry.settings), earlier)
            known.setdefault(_split_key(entry.settings), earlier)
    return known


def read_earlier(entry: RunEntry) -> Earlier | None:
    path = entry.folder / "metrics.jsonl"
    records = [record for record in read_lines(path) if "train/samples" in record] if path.exists() else []
    if len(records) < MIN_ROUNDS:
        return None
    scene = entry.settings["fl_scene"]
    samples = sum(record["train/samples"] for record in records)
    clients = scene["K"] or _lines(entry.folder / "partition.csv") - 1
    visits = len(records) * max(1, round(scene["R"] * clients))
    seconds = sum(record["time/round_s"] for record in records)
    return Earlier(seconds / samples, Split(clients, samples / visits / scene["E"]))


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n") if path.exists() else 1


def _family(settings: dict[str, Any], experiment: Experiment) -> str:
    return json.dumps([type(experiment.model).__name__, settings["fabric"]])


def _speed_key(settings: dict[str, Any]) -> str:
    """The settings that decide the time per sample."""
    names = {group: settings[group]["name"] for group in ("dataset", "algorithm")}
    return json.dumps([names, settings["model"], settings["fl_scene"]["B"], settings["fabric"]], sort_keys=True)


def _split_key(settings: dict[str, Any]) -> str:
    """The settings that decide the clients and their samples."""
    scene = {key: settings["fl_scene"].get(key) for key in ("K", "partition", "local_test", "small_clients")}
    scene["reserve"] = settings["fl_scene"].get("reserve", 0.0)  # which runs of earlier versions do not have
    dataset = {key: value for key, value in settings["dataset"].items() if value is not None}  # likewise
    return json.dumps([dataset, scene], sort_keys=True)
