"""Lightning checkpoints as safetensors: written atomically, and unable to run code when loaded."""

import json
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import CheckpointIO
from safetensors import safe_open
from safetensors.torch import save_file

from fedpan_exp.system.atomic_io import atomic_write


class SafeIO(CheckpointIO):
    """Stores plain values as JSON in the file's header, where numbers stand for the tensors."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        tensors: dict[str, torch.Tensor] = {}
        header = {"tree": json.dumps(_encode(checkpoint, tensors))}
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        atomic_write(Path(path), lambda temporary: save_file(tensors, temporary, header))

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        with safe_open(path, "pt") as file:
            return _decode(json.loads(file.metadata()["tree"]), file)

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


def _encode(node: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """Turn dictionaries into lists of pairs: JSON would make strings of integer keys."""
    if isinstance(node, torch.Tensor):
        tensors[str(len(tensors))] = node.detach().cpu().contiguous().clone()  # safetensors rejects shared memory
        return {"tensor": str(len(tensors) - 1)}
    if isinstance(node, dict):
        return {"pairs": [[key, _encode(value, tensors)] for key, value in node.items()]}
    return [_encode(value, tensors) for value in node] if isinstance(node, list | tuple) else node


def _decode(node: Any, file: Any) -> Any:
    if isinstance(node, dict):
        if "tensor" in node:
            return file.get_tensor(node["tensor"])
        return {key: _decode(value, file) for key, value in node["pairs"]}
    return [_decode(value, file) for value in node] if isinstance(node, list) else node
