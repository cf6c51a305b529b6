"""What replaces a sweep's own dataset, network and scene at a smaller scale, unless its file sets them."""

from collections.abc import Mapping
from typing import Any

SCALES = ("paper", "laptop", "smoke")

# At scale=laptop: datasets that no registry has. Others are kept.
SUBSTITUTES = {"femnist": "mnist", "svhn": "cifar10", "gtsrb": "cifar10", "cifar100": "cifar10", "cinic10": "cifar10"}
# A network of the same family that trains on two cores. The released code's initialisation is a plateau at this width,
# and He's needs a bound and a smaller learning rate than the paper's 0.05.
NARROW = {"model.width_factor": 0.25, "model.init": "he", "training.clip": 5, "training.lr": 0.01}
NARROW_ON_DIGITS = NARROW | {"training.lr": 0.05}  # at scale=smoke, where there are two rounds to learn something
# The paper's scene (K=100, R=0.1, E=5, alpha=0.1) is near chance after 40 rounds of such a network; this passes 50%.
LEARNABLE = {
    **{"fl_scene.K": 20, "fl_scene.R": 0.25, "fl_scene.E": 2, "fl_scene.alpha": 0.5, "fl_scene.H": 40},
    "eval_every": 5,
}
TRAINING_ROUNDS = ("federate", "shuffle_federate")  # the studies whose scene is the paper's main one


def stand_ins(scale: str, grid: Mapping[str, Any], at_scale: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that replace those of a grid; `at_scale` are those of the sweep's file for this scale."""
    if scale == "smoke":
        smallest = {"dataset": "digits", "model": "mlp"}
        chosen = {key: value for key, value in smallest.items() if key in grid} | dict(at_scale)
        is_narrow = chosen.get("dataset") == "digits" and str(chosen.get("model")).startswith("vgg")
        return (NARROW_ON_DIGITS if is_narrow else {}) | chosen
    if scale == "laptop" and "dataset" in grid and not {"dataset", "model"} & set(at_scale):
        return _narrow(grid) | dict(at_scale)
    return dict(at_scale)


def _narrow(grid: Mapping[str, Any]) -> dict[str, Any]:
    dataset = SUBSTITUTES.get(grid["dataset"], grid["dataset"])
    if dataset != "cifar10" or grid.get("model") == "mlp":
        return {"dataset": dataset, "model": "mlp"}
    has_own_scene = "fl_scene" in grid or grid.get("study", "federate") not in TRAINING_ROUNDS
    scene = {} if has_own_scene else {key: value for key, value in LEARNABLE.items() if key not in grid}
    model = "resnet20" if grid.get("model") == "resnet20" else "vgg9"
    return {"dataset": dataset, "model": model, **NARROW, **scene}
