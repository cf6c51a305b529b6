"""The job in our settings, and its data as a file that the peers read."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from benchmarks.peers.job import INVITED, LR, B, E, K, network
from fedpan_exp import config
from fedpan_exp.data import split
from fedpan_exp.experiment import Experiment


def experiment(width: int, rounds: int, ranks: str = "1") -> Experiment:
    config.register()
    scene = {"K": K, "R": INVITED / K, "E": E, "B": B, "H": rounds, "partition": "iid"}
    return config.experiment(
        *(f"model.width={width}", "pan=off", f"training.lr={LR}", "training.warmup=none", "fabric.accelerator=cpu"),
        *(f"fl_scene.{name}={value}" for name, value in scene.items()),
        f"ranks={ranks}",
    )


@torch.no_grad()
def start_alike(net: nn.Module, width: int) -> None:
    """From the weights that the peers start from: the paper's initialisation takes narrow nets longer to leave."""
    for own, theirs in zip(net.parameters(), network(width).parameters(), strict=True):
        own.copy_(theirs)


def export(path: Path) -> None:
    setting = experiment(width=1, rounds=1)
    data, pixels = setting.dataset.load(setting.seed), setting.dataset.pixels(torch.device("cpu"))
    parts = split(data.train.y, setting.fl_scene.rule(), setting.seed).parts
    x = {
        f"{name}_x": pixels.clean(images.x).flatten(1) for name, images in (("train", data.train), ("test", data.test))
    }
    save_file({**x, "train_y": data.train.y, "test_y": data.test.y, "parts": torch.stack(list(parts))}, path)
