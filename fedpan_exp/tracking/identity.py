"""The identity of a run: a readable name, and a hash of the settings that decide its numbers."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import reduce
from hashlib import blake2b
from typing import Any

# Settings that do not change a run's numbers: where it runs and writes, names of bundles of settings, and defaults that
# other settings have already copied.
NON_IDENTITY_KEYS = (
    *(
        "logger",
        "ranks",
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

PERIODLESS = ("ramp", "quarter", "random")  # encodings that do not use T


def run_id(settings: Mapping[str, Any], irrelevant: Sequence[str] = (), pans_off: bool = False) -> str:
    """The same setting gives the same id, however it was launched. `pans_off`: so the network says, whatever T."""
    identity_config = deepcopy(dict(settings))
    for name in dict.fromkeys((*NON_IDENTITY_KEYS, *irrelevant)):
        *sections, key = name.split(".")
        reduce(dict.__getitem__, sections, identity_config).pop(key)
    unused = {"alpha": "dirichlet", "shards": "shards"}  # setting -> the partition that uses it
    if scene := identity_config.get("fl_scene"):
        for key in (key for key, kind in unused.items() if kind not in scene["partition"]):
            scene.pop(key)
    if not identity_config.get("probes"):  # probes only add metrics
        identity_config.pop("probes", None)
        identity_config.pop("probe_every", None)
    if "pan" in identity_config and (pans_off or is_off(identity_config["pan"])):
        identity_config["pan"] = "off"  # the same plain network for any A, T and mode
    elif "pan" in identity_config and identity_config["pan"]["encoding"] in PERIODLESS:
        identity_config["pan"].pop("T")
    if isinstance(pan := identity_config.get("pan"), dict) and pan["per_client"] != "partial":
        pan.pop("own_share")
        if pan["per_client"] == "shared":
            pan.pop("per_client")
    return blake2b(json.dumps(identity_config, sort_keys=True).encode(), digest_size=4).hexdigest()


def run_name(settings: Mapping[str, Any], irrelevant: Sequence[str] = (), pans_off: bool = False) -> str:
    """federate-mnist-mlp-fedavg-mul0.1-alpha0.1-seed0-1a2b3c4d"""
    pan, scene = settings["pan"], settings["fl_scene"]
    parts = {
        "study": settings["study"]["name"],
        "dataset": settings["dataset"]["name"],
        "model": settings["model"]["name"],
        "algorithm": settings["algorithm"]["name"],
        "pan": "off" if pans_off or is_off(pan) else f"{pan['mode']}{pan['A']:g}",
        "fl_scene": f"alpha{scene['alpha']:g}" if "dirichlet" in scene["partition"] else scene["partition"],
        "seed": f"seed{settings['seed']}",
    }
    shown = [part for group, part in parts.items() if group not in irrelevant]
    return "-".join([*shown, run_id(settings, irrelevant, pans_off)])


def is_off(pan: Mapping[str, Any]) -> bool:
    return pan["mode"] == "off" or pan["A"] == 0
