"""Which run is this? A name to read and a hash of the settings that matter for its numbers."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import reduce
from hashlib import blake2b
from typing import Any

# Where and how it runs and where it is written to does not change what a run is; nor do names for bundles of settings,
# and defaults that other settings have taken over by now.
NOT_SCIENCE = (
    *(
        "logger",
        "runs",
        "rerun",
        "plan",
        "checkpoint",
        "target_acc",
        "fabric.accelerator",
        "fabric.devices",
        "dataset.root",
        "fl_scene.client_memory",
    ),
    *("fidelity", "scale", "model.lr", "model.authors_lr", "dataset.authors_lr", "dataset.B", "dataset.epochs"),
)


def run_id(settings: Mapping[str, Any], irrelevant: Sequence[str] = ()) -> str:
    """The same setting gives the same id, however it was launched."""
    science = deepcopy(dict(settings))
    for name in (*NOT_SCIENCE, *irrelevant):
        *sections, key = name.split(".")
        reduce(dict.__getitem__, sections, science).pop(key)
    unused = {"alpha": "dirichlet", "shards": "shards"}  # settings that other partitions do not look at
    for key, kind in unused.items():
        if "fl_scene" in science and kind not in science["fl_scene"]["partition"]:
            science["fl_scene"].pop(key)
    if "pan" in science and is_off(science["pan"]):
        science["pan"] = "off"  # whatever A, T and mode: the same plain network
    return blake2b(json.dumps(science, sort_keys=True).encode(), digest_size=4).hexdigest()


def run_name(settings: Mapping[str, Any], irrelevant: Sequence[str] = ()) -> str:
    """federate-mnist-mlp-fedavg-mul0.1-alpha0.1-seed0-1a2b3c4d"""
    pan, scene = settings["pan"], settings["fl_scene"]
    words = {
        "study": settings["study"]["name"],
        "dataset": settings["dataset"]["name"],
        "model": settings["model"]["name"],
        "algorithm": settings["algorithm"]["name"],
        "pan": "off" if is_off(pan) else f"{pan['mode']}{pan['A']:g}",
        "fl_scene": f"alpha{scene['alpha']:g}" if "dirichlet" in scene["partition"] else scene["partition"],
        "seed": f"seed{settings['seed']}",
    }
    shown = [word for group, word in words.items() if group not in irrelevant]
    return "-".join([*shown, run_id(settings, irrelevant)])


def is_off(pan: Mapping[str, Any]) -> bool:
    return pan["mode"] == "off" or pan["A"] == 0 or pan["T"] == 0
