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
from fedpan_exp.tracking.identity import NEUTRAL_VALUES
from fedpan_exp.tracking.record import Record
from fedpan_exp.tracking.runs import RunEntry


def load_run_weights(folder: Path, record: Record, net: Network) -> dict[str, Tensor]:
    """Return the weights of the run in `folder`, for `net`, the network of the run `record`."""
    try:
        saved = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        state = load_file(folder / "weights.safetensors")
        theirs = _network(saved, RunEntry(folder).pans_off)
        ours = _network(record.settings, record.identity.pans_off)
    except (OSError, SafetensorError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"study.weights must be the folder of a finished run, got {folder} ({first_line(error)})"
        ) from None
    for name, value in ours.items():
        their_value = theirs.get(name, NEUTRAL_VALUES.get(name))  # a run of an earlier version lacks some
        if their_value != value:
            raise ConfigError(f"study.weights must be a run with {name}={value}, got {folder} with {their_value}")
    if {name: t.shape for name, t in state.items()} != {name: t.shape for name, t in net.state_dict().items()}:
        raise ConfigError(f"study.weights must be a run of the same network, got {folder} with other tensors")
    return state


def _network(settings: Mapping[str, Any], pans_off: bool) -> dict[str, Any]:
    """What the weights of a network depend on, by the names of its settings."""
    model = {f"model.{key}": value for key, value in settings["model"].items() if not key.endswith("lr")}
    pan = settings["pan"]
    encoding = {"pan": "off"} if pans_off else {f"pan.{key}": value for key, value in pan.items()}
    return {"dataset": settings["dataset"]["name"], **model, **encoding}
