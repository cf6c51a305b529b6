"""The jobs as settings of fedpan_exp, and their data as files for the peers."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from benchmarks.peers.job import LR, TASKS, B, K, network
from fedpan_exp import config
from fedpan_exp.config import Experiment
from fedpan_exp.data import split
from fedpan_exp.studies import load_studies


def experiment(name: str, rounds: int = 1, ranks: str = "1") -> Experiment:
    task = TASKS[name]
    scene = {"K": K, "R": task.cohort_size / K, "E": task.E, "B": B, "H": rounds, "partition": "iid"}
    config.register(load_studies())
    return config.experiment(
        *(*task.settings, "pan=off", "fabric.accelerator=cpu"),
        *(f"training.lr={LR}", "training.warmup=none", "training.clip=null"),  # what all programs do
        *(f"fl_scene.{setting}={value}" for setting, value in scene.items()),
        f"ranks={ranks}",
    )


@torch.no_grad()
def load_common_weights(net: nn.Module, name: str) -> None:
    """Start from the peers' initial weights: with the paper's initialisation, narrow networks learn more slowly."""
    for ours, theirs in zip(net.parameters(), network(name).parameters(), strict=True):
        ours.copy_(theirs)


def export(name: str, path: Path) -> None:
    """Write the data and its partition, as `job.tensors` describes them."""
    setting = experiment(name)
    data, transform = setting.dataset.load(setting.seed), setting.dataset.transform(torch.device("cpu"))
    parts = split(data.train.y, setting.fl_scene.partition_config(), setting.seed).parts
    x = {
        f"{part}_x": transform.normalize(images.x).contiguous()
        for part, images in (("train", data.train), ("test", data.test))
    }
    save_file({**x, "train_y": data.train.y, "test_y": data.test.y, "parts": torch.stack(list(parts))}, path)
