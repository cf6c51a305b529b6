"""FeMnist (Caldas et al., 2018): handwritten characters grouped by writer, in any number of LEAF's JSON files."""

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

from fedpan_exp.data.files import File, Files, archive
from fedpan_exp.data.images import DatasetSplits, ImageTensors, label_tensor
from fedpan_exp.data.source import Source
from fedpan_exp.system.console import progress_bar
from fedpan_exp.system.errors import DataError, first_line

CLASSES, SIDE = 62, 28
PATTERN = re.compile(r"(^|/)(all_data|train|test|femnist)[^/]*\.json(\.gz|\.xz)?$")
STAGES = ({"train", "test"}, {"rem_user_data"}, {"sampled_data"}, {"all_data"})  # LEAF's folders, last step first
Samples = tuple[np.ndarray, torch.Tensor]


def _read(files: Files) -> DatasetSplits:
    """Read all samples of all writers as the training set; each run then draws writers and holds out a test set."""
    parts: dict[str, dict[str, Samples]] = {}  # by file, then writer
    relevant = Files(files.folder, _last_stage(files.names), files.fingerprint)
    with progress_bar("read femnist", len(relevant.names), log_lines=5) as progress:
        for _, file in relevant.matching(PATTERN):
            parts[file.name] = _writers(file)
            progress.advance()
            progress.describe(f"{file.name}: {len(parts[file.name]):,} writers")
    by_writer: dict[str, list[Samples]] = {}
    first_file: dict[tuple[str, bytes], str] = {}
    for name in _last_stage(parts):  # again, because members of archives are only known now
        for writer, samples in parts[name].items():
            by_writer.setdefault(writer, []).append(samples)
            earlier = first_file.setdefault((writer, sha256(samples[0].tobytes()).digest()), name)
            if earlier != name:
                raise DataError(f"{name} and {earlier} have the same samples of user {writer}; delete one of them")
    if not by_writer:
        raise DataError(f"{files.folder} has no writers; create its files with LEAF's preprocess.sh")
    writers = sorted(by_writer)
    x = torch.from_numpy(np.concatenate([x for writer in writers for x, _ in by_writer[writer]]))
    y = torch.cat([y for writer in writers for _, y in by_writer[writer]])
    counts = torch.tensor([sum(len(y) for _, y in by_writer[writer]) for writer in writers])
    users = torch.arange(len(writers)).repeat_interleave(counts)
    return DatasetSplits(ImageTensors(x, y, users), ImageTensors(x[:0], y[:0], users[:0]), tuple(writers))


def _last_stage(names: Iterable[str]) -> list[str]:
    """Select the files of LEAF's last step: each step has a folder with the same samples."""
    names = sorted(names)
    for stage in STAGES:
        selected = [name for name in names if PurePath(name).parent.name in stage]
        if selected:
            return selected
    return names


def _writers(file: File) -> dict[str, Samples]:
    content = file.read()
    try:
        part = json.loads(content)
        pairs = zip(part["users"], part["num_samples"], strict=True)
        return {writer: _samples(file, writer, count, part["user_data"].get(writer)) for writer, count in pairs}
    except DataError:
        raise
    except Exception as error:  # a file of another format can raise any exception
        reason = f"no {error}" if isinstance(error, KeyError) else first_line(error)
        raise DataError(
            f"{file.name} is not a LEAF file ({reason}); create it again with LEAF's preprocess.sh"
        ) from None


def _samples(file: File, writer: str, count: int, samples: Any) -> Samples:
    x, y = (samples.get(letter, []) for letter in "xy") if isinstance(samples, dict) else ([], [])
    if not len(x) == len(y) == count > 0:
        counts = f"{len(x)} images and {len(y)} labels for the {count} samples"
        raise DataError(f"{file.name} has {counts} of user {writer}; create it again with LEAF's preprocess.sh")
    try:
        pixels = np.asarray(x, np.float32).reshape(count, 1, SIDE, SIDE)
    except ValueError:
        raise DataError(f"{file.name} has an image of user {writer} that is not {SIDE}x{SIDE}") from None
    if not (pixels.min() >= 0 and pixels.max() <= 1):
        raise DataError(f"{file.name} has pixels of user {writer} outside 0 to 1; create it again")
    return np.rint(pixels * 255).astype(np.uint8), label_tensor(y, CLASSES, f"{file.name}, user {writer},")


FEMNIST = Source(
    name="femnist",
    search_dirs=("femnist", "FEMNIST", "FeMnist", "leaf/data/femnist/data"),
    files=PATTERN,
    archives=archive("(leaf_?)?femnist"),
    read=_read,
    page="https://leaf.cmu.edu (its data/femnist/preprocess.sh -s niid --sf 1.0 -k 0 -t sample makes the JSON files)",
    licence="BSD-2 (LEAF), public domain (NIST)",
    users=3_550,
)
