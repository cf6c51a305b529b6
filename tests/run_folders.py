"""Synthetic run folders in the format that studies write, made in milliseconds: the report's test data."""

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from hydra import compose, initialize_config_dir
from matplotlib.figure import Figure
from omegaconf import OmegaConf
from safetensors.numpy import save_file

from fedpan_exp import config
from fedpan_exp.studies import load_studies
from fedpan_exp.system.paths import CONF
from fedpan_exp.tracking.identity import run_name

SCENE = ("fl_scene.K=100", "fl_scene.R=0.1", "fl_scene.E=5", "fl_scene.H=8")
GAINS = {"off": 0.0, "add": 0.004, "mul": 0.01}  # what PANs add to the synthetic accuracy
FEDERATED = ("federate", "shuffle_federate", "divergence", "matching", "preference", "centralize")
PANS = (("off", 0.0), ("add", 0.05), ("mul", 0.05), ("mul", 0.1))


@cache
def default_settings() -> Any:
    config.register(load_studies())
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return OmegaConf.to_container(compose("config", ["scale=smoke", "dataset=mnist", *SCENE]), resolve=True)


def settings_of(**changes: Any) -> dict[str, Any]:
    """fl_scene__alpha=1.0, pan=("mul", 0.1), dataset="cifar10", study__N_sf=0.2"""
    settings = deepcopy(default_settings())
    if "pan" in changes:
        settings["pan"]["mode"], settings["pan"]["A"] = changes.pop("pan")
    for name, value in changes.items():
        *groups, key = name.split("__")
        node = settings
        for group in groups:
            node = node.setdefault(group, {})
        if not groups and isinstance(settings.get(key), dict):
            settings[key]["name"] = value
        else:
            node[key] = value
    return settings


def make_run(runs: Path, status: str = "done", rounds: int | None = None, **changes: Any) -> Path:
    """Write a complete run folder; its numbers are seeded by its name."""
    settings = settings_of(**changes)
    folder = runs / run_name(settings)
    folder.mkdir(parents=True, exist_ok=True)
    study = settings["study"]["name"]
    generator = np.random.default_rng(int(folder.name[-8:], 16))
    lines = (
        training_lines(settings, rounds or settings["fl_scene"]["H"], generator)
        if study in FEDERATED
        else LINES[study](settings, generator)
    )
    (folder / "config.yaml").write_text(yaml.dump(settings, Dumper=yaml.CSafeDumper, sort_keys=False))
    (folder / "metrics.jsonl").write_text(
        "".join(json.dumps({"round": round_idx, **line}) + "\n" for round_idx, line in enumerate(lines, 1))
    )
    (folder / "summary.json").write_text(json.dumps(summary_of(settings, lines, generator)))
    versions = {"fedpan_exp": "0.1.0", "torch": "2.13.0"}
    status_file = {
        "status": status,
        "seed": settings["seed"],
        "irrelevant": list(load_studies()[study].irrelevant),
        "command": ["scale=smoke"],
        "versions": versions,
        "git": "c0ffee1",
    }
    if status in ("failed", "diverged"):
        status_file["reason"] = "diverged in round 3 at client 7: the local loss is nan"
    (folder / "status.json").write_text(json.dumps(status_file))
    write_extras(folder, study, settings, generator)
    return folder


def training_lines(settings: dict[str, Any], rounds: int, generator: np.random.Generator) -> list[dict[str, Any]]:
    """Paired as real runs are: runs of one seed share their noise, apart from the PAN's part."""
    pan, scene = settings["pan"], settings["fl_scene"]
    common = np.random.default_rng([settings["seed"], int(100 * scene["alpha"]), int(scene["E"])])
    noise = 0.01 * common.standard_normal(rounds)
    off = pan["mode"] == "off" or pan["A"] == 0
    level = 0.9 - 0.05 / (1 + scene["alpha"]) - 0.2 * settings["study"].get("N_sf", 0)
    gain = 0.0 if off else GAINS.get(pan["mode"], 0.0) * (1 - 3 * (pan["A"] - 0.1) ** 2)
    round_indices = np.arange(1, rounds + 1)
    accuracy = (
        level * (1 - np.exp(-3 * round_indices / rounds)) + noise + gain + 0.003 * generator.standard_normal(rounds)
    )
    return [
        {
            **{"train/loss": 2.3 * float(np.exp(-round_idx / rounds)), "train/samples": 3000, "train/steps": 50},
            **{"clients/divergence": 1.0 / round_idx, "comm/up_bytes": 10**7, "comm/down_bytes": 10**7},
            **{"time/local_s": 0.4, "time/round_s": 0.5},
            **{"global/test_acc": float(np.clip(value, 0, 1)), "global/test_loss": float(2.3 - 2 * value)},
        }
        for round_idx, value in zip(round_indices, accuracy, strict=True)
    ]


def kept_lines(settings: dict[str, Any], generator: np.random.Generator) -> list[dict[str, Any]]:
    single = [{"P_sf": p / 10, "kept": 1 - 0.9 * p / 10, "deviation": 0.01} for p in range(11)]
    several = [{"N_sf": n, "P_sf": 0.1, "kept": 1 - 0.16 * n, "deviation": 0.01} for n in (0.1, 0.2, 0.5, 1.0)]
    return single + several


def error_lines(settings: dict[str, Any], generator: np.random.Generator) -> list[dict[str, Any]]:
    return [
        {
            "mode": mode,
            "A": A,
            "T": T,
            "error": A ** (1 if mode == "add" else 1.4) * (1 + 0.01 * T),
            "deviation": 0.01 * A,
        }
        for mode in ("add", "mul")
        for A in (0.05, 0.1, 0.25, 0.5, 0.75)
        for T in (1.0, 2.0, 8.0)
    ]


def test_lines(settings: dict[str, Any], generator: np.random.Generator) -> list[dict[str, Any]]:
    A = 0.0 if settings["pan"]["mode"] == "off" else settings["pan"]["A"]
    return [{"P_sf": p / 5, "test_acc": 0.95 - A * p / 5, "error": A * p / 5, "deviation": 0.0} for p in range(6)]


def fusion_lines(settings: dict[str, Any], generator: np.random.Generator) -> list[dict[str, Any]]:
    mus = np.linspace(0, 1, 11)
    return [
        {"mu": float(mu), "avg_acc": 0.95 - 1.6 * float(mu * (1 - mu)), "ot_acc": 0.95 - 0.4 * float(mu * (1 - mu))}
        for mu in mus
    ]


def doctor_lines(settings: dict[str, Any], generator: np.random.Generator) -> list[dict[str, Any]]:
    return [{"layer": layer, "width": 8, "distinct": 8, "on": True} for layer in LAYERS]


def no_lines(settings: dict[str, Any], generator: np.random.Generator) -> list[dict[str, Any]]:
    return []


LINES = {
    "doctor": doctor_lines,
    "fusion": fusion_lines,
    "kept_ratio": kept_lines,
    "partition": no_lines,
    "shuffle_error": error_lines,
    "shuffle_test": test_lines,
}
LAYERS = ("fc1", "fc2", "fc3", "head")


def summary_of(settings: dict[str, Any], lines: list[dict[str, Any]], generator: np.random.Generator) -> dict[str, Any]:
    study = settings["study"]["name"]
    accuracy = [line["global/test_acc"] for line in lines if "global/test_acc" in line]
    summary: dict[str, Any] = {}
    if accuracy:
        last = accuracy[-5:]
        summary |= {"summary/last5_acc": sum(last) / len(last), "summary/best_acc": max(accuracy)}
        summary |= {"summary/final_acc": last[-1], "summary/rounds": len(lines)}
    on = 0.7 if settings["pan"]["mode"] != "off" else 1.0
    for layer in LAYERS:
        if study == "divergence":
            summary[f"summary/divergence/{layer}"] = on * (1 + generator.random())
            summary[f"summary/gradient_variance/{layer}"] = on * (0.1 + generator.random())
        if "matching_gap" in settings["probes"]:
            summary[f"summary/matching_gap/{layer}"] = 0.01 * generator.random()
        if study in ("matching", "preference"):
            summary[f"summary/{study}/{layer}"] = 0.9 - 0.4 * on + 0.1 * generator.random()
    if study == "shuffle_error":
        summary |= {"summary/power_add": 1.02, "summary/power_mul": 1.41}
    if study == "fusion":
        summary["summary/ot_middle"] = 0.85 + 0.01 * generator.random() + GAINS.get(settings["pan"]["mode"], 0.0)
    if study == "shuffle_test":
        summary["summary/test_acc"] = lines[0]["test_acc"]
    if study == "kept_ratio":
        summary |= {"summary/kept_N_sf_1.0": 0.84, "summary/kept_N_sf_0.2": 0.968}
    return summary


def write_extras(folder: Path, study: str, settings: dict[str, Any], generator: np.random.Generator) -> None:
    neurons = 64
    order = np.arange(neurons)
    moved = generator.choice(neurons, 20 if settings["pan"]["mode"] != "off" else 50, replace=False)
    order[np.sort(moved)] = moved
    if study == "kept_ratio":
        (folder / "order.json").write_text(json.dumps({"P_sf": 0.1, "order": order.tolist()}))
    if study == "matching":
        (folder / "matching.json").write_text(json.dumps({layer: order.tolist() for layer in LAYERS}))
    if study == "preference":
        tensors = {
            f"{side}/{layer}": generator.random((neurons, 10)) for side in ("global", "local") for layer in LAYERS
        }
        save_file(tensors, folder / "preference.safetensors")
    if study == "doctor":
        values = {layer: np.sin(np.arange(8)).tolist() for layer in LAYERS}
        (folder / "encodings.json").write_text(json.dumps({"neutral": 0.0, "values": values}))
    if "fl_scene" not in load_studies()[study].irrelevant:
        split = np.random.default_rng(settings["seed"])  # shared by all runs of this seed
        counts = split.multinomial(500, split.dirichlet(np.full(10, settings["fl_scene"]["alpha"])), 20)
        rows = [["client", "samples", *(f"label_{label}" for label in range(10))]]
        rows += [[k, 500, *row] for k, row in enumerate(counts.tolist())]
        (folder / "partition.csv").write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")


def make_listing(
    runs: Path, sweep: str, folders: list[Path], swept: list[str] | None = None, scale: str = "smoke"
) -> Path:
    path = runs / ".sweeps" / f"{sweep}-{scale}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    jobs = [{"run": folder.name, "overrides": []} for folder in folders]
    command = f"python -m fedpan_exp sweeps={sweep} scale={scale}"
    listing = {"sweep": sweep, "scale": scale, "command": command, "swept": swept or ["pan"], "jobs": jobs}
    path.write_text(json.dumps(listing))
    return path


def is_drawn(figure: Figure) -> bool:
    """Whether every visible panel shows something."""
    panels = [axes for axes in figure.axes if axes.get_visible()]
    return bool(panels) and all(axes.lines or axes.collections or axes.patches or axes.images for axes in panels)
