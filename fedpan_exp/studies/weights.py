"""Load the weights of an earlier run, after checking that it trained the same network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from fedpan_exp.models import Network
from fedpan_exp.system.errors import ConfigError, first_line
from fedpan_exp.tracking.identity import is_off


def load_run_weights(folder: Path, settings: Mapping[str, Any], net: Network) -> dict[str, Tensor]:
    """State dict from the run in `folder`, for `net`, which `settings` describe."""
    try:
        saved = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        state = load_file(folder / "weights.safetensors")
        theirs, ours = _network(saved), _network(settings)
    except (OSError, SafetensorError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"study.weights must be the folder of a finished run, got {folder} ({first_line(error)})"
        ) from None
    for name, value in ours.items():
        if theirs.get(name) != value:
            raise ConfigError(f"study.weights must be a run with {name}={value}, got {folder} with {theirs.get(name)}")
    if {name: t.shape for name, t in state.items()} != {name: t.shape for name, t in net.state_dict().items()}:
        raise ConfigError(f"study.weights must be a run of the same network, got {folder} with other tensors")
    return state


def _network(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Setting -> value, for all settings that determine the network."""
    model = {f"model.{key}": value for key, value in settings["model"].items() if not key.endswith("lr")}
    pan = settings["pan"]
    encoding = {"pan": "off"} if is_off(pan) else {f"pan.{key}": value for key, value in pan.items()}
    return {"dataset": settings["dataset"]["name"], **model, **encoding}
