"""What federated studies start from: data split over clients, a network, its trainer."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from fedpan_exp.config import Experiment
from fedpan_exp.config.schema import LAST
from fedpan_exp.data import (
    Clients,
    DatasetSplits,
    ImageTensors,
    Split,
    VirtualParts,
    load_dataset,
    read_split,
    split,
    withhold,
)
from fedpan_exp.federation import FederatedTask, Scene, torchrun
from fedpan_exp.models import Network, count_weights, encodings, inactive_layers
from fedpan_exp.system.atomic_io import write_json, write_text
from fedpan_exp.system.console import counted, print_status, warn
from fedpan_exp.system.errors import ConfigError, require
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import LocalTrainer

SHOWN_VIRTUAL = 1_000  # virtual clients in partition.csv


def load(experiment: Experiment) -> DatasetSplits:
    data = experiment.dataset.load(experiment.seed)
    drawn = f", of {len(data.users):,} users" if data.users else ""
    print_status(
        "data", f"{experiment.dataset.name}: {len(data.train):,} training and {len(data.test):,} test images{drawn}"
    )
    return data


class SplitData(NamedTuple):
    data: DatasetSplits  # its training set is that of the clients
    split: Split
    unlabelled: Tensor | None  # images withheld from all clients, see fl_scene.reserve


def load_and_split(experiment: Experiment) -> SplitData:
    scene = experiment.fl_scene
    data, unlabelled = withhold(load(experiment), scene.reserve, experiment.seed)
    if unlabelled is not None:
        print_status("reserve", f"{len(unlabelled):,} training images withheld from all clients")
    if scene.split_file:
        data, parts = read_split(scene.split_file, data, withheld=0 if unlabelled is None else len(unlabelled))
    else:
        parts = split(data.train.y, scene.partition_config(), experiment.seed, data.train.users)
    print_status(
        "clients", f"{describe_split(parts)}, {scene.partition}; {scene.cohort_size(len(parts.parts))} per round"
    )
    return SplitData(data, parts, unlabelled)


def load_unlabelled(experiment: Experiment, name: str) -> Tensor:
    """The training images of another dataset."""
    images = load_dataset(name, experiment.dataset.root, experiment.dataset.verify).train.x
    rule = f"a dataset of images [channels, height, width] {experiment.dataset.shape}"
    require(list(images.shape[1:]) == experiment.dataset.shape, "algorithm.data", rule, f"{name} {[*images.shape[1:]]}")
    print_status("server", f"{len(images):,} unlabelled training images of {name}")
    return images


def write_users(record: Record, data: DatasetSplits) -> None:
    """users.json: the users that the clients are, where the dataset names them."""
    if data.users:
        write_json(record.folder / "users.json", {"users": data.users})


def write_partition(record: Record, data: DatasetSplits, split: Split, classes: int) -> Tensor:
    """partition.csv: samples per client and label; also returned, as [clients, classes].

    Of virtual clients, which may be millions, only the first ones.
    """
    shown = islice(split.parts, SHOWN_VIRTUAL if isinstance(split.parts, VirtualParts) else None)
    counts = torch.stack([data.train.y[part].bincount(minlength=classes) for part in shown])
    header = ["client", "samples", *(f"label_{label}" for label in range(classes))]
    rows = [[k, sum(row), *row] for k, row in enumerate(counts.tolist())]
    lines = [",".join(map(str, row)) for row in [header, *rows]]
    write_text(record.folder / "partition.csv", "\n".join(lines) + "\n")
    return counts


def accuracies(tested: Sequence[float]) -> dict[str, float]:
    """The accuracies of a summary, from those of the tested rounds."""
    if not tested:
        return {}
    last = tested[-LAST:]
    return {
        "summary/last5_acc": sum(last) / len(last),
        "summary/best_acc": max(tested),
        "summary/final_acc": last[-1],
    }


@dataclass
class FederatedSetup:
    """The data, its split, and what trains on it."""

    data: DatasetSplits
    split: Split
    trainer: LocalTrainer
    clients: Clients
    test: ImageTensors
    unlabelled: Tensor | None = None  # images of the server


def set_up(experiment: Experiment) -> FederatedSetup:
    """Build the network, split the data over clients, create the trainer; print one line on each."""
    scene, net = experiment.fl_scene, experiment.network()
    describe_network(experiment, net)
    data, split, unlabelled = load_and_split(experiment)
    if experiment.algorithm.server_dataset:
        unlabelled = load_unlabelled(experiment, experiment.algorithm.server_dataset)
    trainer = make_trainer(experiment, net)
    device = trainer.fabric.device
    images, classes = data.train.to(device), experiment.dataset.classes
    clients = Clients(images, trainer.transform, split.parts, scene.local_test, experiment.seed, classes)
    if trainer.has_batch_norm:
        check_batch_norm(clients.sizes, scene.B)
    check_local_work(clients.sizes, scene, fewest=2 if trainer.has_batch_norm else 1)
    return FederatedSetup(data, split, trainer, clients, data.test.to(device), unlabelled)


def make_task(experiment: Experiment, setup: FederatedSetup) -> FederatedTask:
    return FederatedTask(
        experiment.algorithm,
        setup.trainer,
        setup.clients,
        experiment.fl_scene,
        experiment.seed,
        setup.test,
        experiment.probes_at,
        experiment.evaluates,
        setup.unlabelled,
    )


def make_trainer(experiment: Experiment, net: Network) -> LocalTrainer:
    from fedpan_exp.training import Classifier

    fabric = experiment.fabric.make(gpu=torchrun.local_gpu())
    threads = torch.get_num_threads()
    print_status("device", f"{fabric.device}, {counted(threads, 'thread')}, precision {experiment.fabric.precision}")
    return LocalTrainer(fabric, Classifier(net, experiment.training), experiment.dataset.transform(fabric.device))


def describe_split(split: Split) -> str:
    sizes = split.sizes
    text = f"{len(sizes):,} with {min(sizes):,} to {max(sizes):,} samples"
    if split.redraws:
        text += f", drawn {split.redraws + 1} times to give each enough"
    if split.moved:
        text += f", {counted(split.moved, 'sample')} moved to clients with too few"
    if split.dropped:
        text += f", {split.dropped} with too few samples dropped"
    return text


def describe_network(experiment: Experiment, net: Network) -> None:
    pan = experiment.pan
    weights = count_weights(net)
    inactive = {} if pan.is_off else inactive_layers(net)  # reason -> layers
    active = [e.layer for e in encodings(net) if not any(e.layer in layers for layers in inactive.values())]
    owner = {"shared": "", "own": "; each client its own", "partial": f"; {pan.own_share:.0%} each client's own"}
    layers = " ".join(active) or "no layer"
    on = f"PANs {pan.mode}, A={pan.A:g}, T={pan.T:g}, on {layers}{owner[pan.per_client]}"
    print_status("network", f"{experiment.model.name}, {weights:,} weights; {'PANs off' if pan.is_off else on}")
    if net.class_groups > 1:
        sections = net.permutation_spec.sections
        first, *own = [f"{layer} ({size})" for layer, size in net.permutation_spec.sizes.items() if sections[layer] > 1]
        print_status("groups", f"{net.class_groups}, with {' '.join([*own, 'head'])} of their own after {first}")
    if pan.mode == "mul" and pan.A > 1:
        warn(f"pan.A={pan.A:g} is above 1: some factors 1 + e are negative, and turn the sign of their neurons")
    if inactive:
        layers = "; ".join(f"{' '.join(names)} ({reason})" for reason, names in inactive.items())
        warn(f"pan.A={pan.A:g}, but the position encoding has no effect on {layers}")


def check_local_work(parts: list[int], scene: Scene, fewest: int = 1) -> None:
    """Every client must take a step, for which it needs the `fewest` samples; BatchNorm skips a batch of one."""
    if not scene.steps:
        rule = f"at least {counted(fewest, 'sample')} of every client, the smallest of which has {min(parts)}"
        require(int(scene.E * min(parts)) >= fewest, "fl_scene.E", rule, scene.E)


def check_batch_norm(parts: list[int], B: int) -> None:
    """BatchNorm cannot train on a batch of one sample: such a last batch is skipped, with a warning."""
    if min(parts) < 2 or B < 2:
        raise ConfigError(
            "fl_scene.min_samples (less fl_scene.local_test) and fl_scene.B must be at least 2 for a network with "
            f"BatchNorm, got {min(parts)} and {B}"
        )
    single = sum(size % B == 1 for size in parts)
    if single:
        warn(f"the last batch of {counted(single, 'client')} has one sample; it is skipped, because of BatchNorm")
