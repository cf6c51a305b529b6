"""The identity of a run: a readable name, and a hash of the settings that decide its numbers."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

# Settings that do not change a run's numbers: where it runs and writes, names of bundles of settings, and defaults that
# other settings have already copied.
NON_IDENTITY_KEYS = (
    *(
        "logger",
        "ranks",
        "runs",
        "rerun",
        "plan",
        "verbose",
        "on_error",
        "settle",
        "checkpoint",
        "target_acc",
        "fabric.accelerator",
        "fabric.devices",
        "fabric.timeout",
        "training.fast",
        "dataset.root",
        *(f"dataset.{setting}" for setting in ("hf", "config", "image", "label", "user")),  # dataset.digest counts
        "fl_scene.client_memory",
    ),
    *("fidelity", "scale", "model.lr", "model.authors_lr", "dataset.authors_lr", "dataset.B", "dataset.epochs"),
)

# Settings that were added later, with the value at which they change nothing: such runs keep their id.
NEUTRAL_VALUES: dict[str, Any] = {
    "fl_scene.reserve": 0.0,
    "fl_scene.steps": None,
    "fl_scene.file": None,
    "fl_scene.samples": 50,
    "study.split": "fedpan_exp",
    "model.init": "authors",
    "model.width_factor": 1.0,
    "dataset.samples": None,
    "dataset.test_samples": None,
    "model.groups": 1,
    "model.spare": 0,
    "study.parts": 2,
    "model.head": "trained",
    "pan.order": "shared",
    "pan.n_fix": 0,
    "training.decay_to": "zero",
    "training.neuron_rates": "plain",
    "fabric.tf32": False,
}

# Partition -> settings of the split that it does not use. Those of plugins may use all.
UNUSED = {
    **dict.fromkeys(("dirichlet", "dirichlet_class", "dirichlet_balanced"), ("shards", "samples")),
    **dict.fromkeys(("iid", "natural"), ("alpha", "shards", "samples")),
    "dirichlet_virtual": ("shards", "min_samples", "small_clients"),
    "shards": ("alpha", "samples"),
    "file": ("alpha", "shards", "K", "min_samples", "small_clients", "samples"),
}

PERIODLESS = ("ramp", "quarter", "random")  # encodings that do not use T

ENCODINGLESS = ("w_asym", "sigma_asym")  # PANs with fixed random numbers instead of an encoding


@dataclass(frozen=True)
class RunIdentity:
    """Name, id and other properties of a run, decided once, before its folder exists."""

    name: str
    group: str  # shared by the seeds of one setting
    id: str
    pans_off: bool  # whether no position encoding of the network has an effect
    irrelevant: tuple[str, ...]  # groups and settings that do not change the results of the study
    total_rounds: int | None  # rounds or epochs that the run will record; None: it records other measurements

    @classmethod
    def of(
        cls, settings: Mapping[str, Any], irrelevant: Sequence[str], pans_off: bool, total_rounds: int | None
    ) -> Self:
        return cls(
            name=run_name(settings, irrelevant, pans_off),
            group=run_name(settings, (*irrelevant, "seed"), pans_off),
            id=run_id(settings, irrelevant, pans_off),
            pans_off=pans_off,
            irrelevant=tuple(irrelevant),
            total_rounds=total_rounds,
        )


def run_id(settings: Mapping[str, Any], irrelevant: Sequence[str] = (), pans_off: bool | None = None) -> str:
    """Hash the settings that decide the numbers of a run. `pans_off` None: unknown, decided by mode and A."""
    text = json.dumps(identity_config(settings, irrelevant, pans_off), sort_keys=True)
    return blake2b(text.encode(), digest_size=4).hexdigest()


def identity_config(
    settings: Mapping[str, Any], irrelevant: Sequence[str] = (), pans_off: bool | None = None
) -> dict[str, Any]:
    """The settings that decide the numbers of a run, equal for equal experiments. Earlier versions lack some."""
    config = deepcopy(dict(settings))
    for name, value in NEUTRAL_VALUES.items():
        section, key = name.split(".")
        if config.get(section, {}).get(key, value) == value:
            config.get(section, {}).pop(key, None)
    for name in dict.fromkeys((*NON_IDENTITY_KEYS, *irrelevant)):
        section, _, key = name.partition(".")
        if key:
            config.get(section, {}).pop(key, None)
        else:
            config.pop(name, None)
    if fork := config.pop("fork", None):  # the name of the run, wherever it is
        run, _, round_idx = fork.rpartition("@")
        config["fork"] = f"{run.rstrip('/').rpartition('/')[2]}@{round_idx}"
    if plugins := config.pop("plugins", None):  # their content, wherever they are
        config["plugins"] = sorted(plugin.rpartition("@")[2] for plugin in plugins)
    if scene := config.get("fl_scene"):
        for key in UNUSED.get(scene.get("partition"), ()):
            scene.pop(key, None)
        if scene.get("partition") == "file":
            scene["file"] = scene["file"].rpartition("@")[2]  # its content, wherever it is
        if "E" in scene:
            scene["E"] = "steps" if scene.get("steps") else whole(scene["E"])
    if (model := config.get("model")) and "groups" not in model:
        model.pop("shared_layers", None)
    if not config.get("probes"):  # probes only add metrics
        config.pop("probes", None)
        config.pop("probe_every", None)
    if pan := config.get("pan"):
        if is_off(pan) if pans_off is None else pans_off:
            config["pan"] = "off"  # the same plain network for any A, T and mode
            return config
        if pan.get("encoding") in PERIODLESS:
            pan.pop("T", None)
        elif pan["mode"] in ENCODINGLESS:
            pan.pop("T", None)
            pan.pop("encoding", None)
        per_client = pan.get("per_client", "shared")
        if per_client != "partial":
            pan.pop("own_share", None)
        if per_client == "shared":
            pan.pop("per_client", None)
    return config


def run_name(settings: Mapping[str, Any], irrelevant: Sequence[str] = (), pans_off: bool | None = None) -> str:
    """federate-mnist-mlp-fedavg-mul0.1-alpha0.1-seed0-1a2b3c4d"""
    pan, scene = settings["pan"], settings["fl_scene"]
    parts = {
        "study": settings["study"]["name"],
        "dataset": settings["dataset"]["name"],
        "model": settings["model"]["name"],
        "algorithm": settings["algorithm"]["name"],
        "pan": "off" if (is_off(pan) if pans_off is None else pans_off) else f"{pan['mode']}{pan['A']:g}",
        "fl_scene": f"alpha{scene['alpha']:g}" if "dirichlet" in scene["partition"] else scene["partition"],
        "seed": f"seed{settings['seed']}",
    }
    shown = [part for group, part in parts.items() if group not in irrelevant]
    return "-".join([*shown, run_id(settings, irrelevant, pans_off)])


def whole(number: float) -> float:
    """5 for 5.0: as it was written when a setting took whole numbers only."""
    return int(number) if number == int(number) else number


def is_off(pan: Mapping[str, Any]) -> bool:
    """Whether mode or A switch PANs off. `Experiment.pans_off` also knows the network, and is what runs record."""
    return pan.get("mode", "off") == "off" or pan.get("A", 0) == 0
