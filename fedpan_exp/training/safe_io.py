"""Lightning's checkpoints as safetensors: written whole, and a stranger's can run no code."""

import json
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import CheckpointIO
from safetensors import safe_open
from safetensors.torch import save_file

from fedpan_exp.system.atomic_io import atomic_write


class SafeIO(CheckpointIO):
    """The tree of plain values goes into the header, with a number for each tensor."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        tensors: dict[str, torch.Tensor] = {}
        header = {"tree": json.dumps(_plain(checkpoint, tensors))}
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        atomic_write(Path(path), lambda temporary: save_file(tensors, temporary, header))

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        with safe_open(path, "pt") as file:
            return _whole(json.loads(file.metadata()["tree"]), file)

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


def _plain(node: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """Dictionaries become lists of pairs: JSON would make words of an optimizer's numbers."""
    if isinstance(node, torch.Tensor):
        tensors[str(len(tensors))] = node.detach().cpu().contiguous().clone()  # nothing shared
        return {"tensor": str(len(tensors) - 1)}
    if isinstance(node, dict):
        return {"pairs": [[key, _plain(value, tensors)] for key, value in node.items()]}
    return [_plain(value, tensors) for value in node] if isinstance(node, list | tuple) else node


def _whole(node: Any, file: Any) -> Any:
    if isinstance(node, dict):
        if "tensor" in node:
            return file.get_tensor(node["tensor"])
        return {key: _whole(value, file) for key, value in node["pairs"]}
    return [_whole(value, file) for value in node] if isinstance(node, list) else node
