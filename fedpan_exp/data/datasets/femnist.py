"""FeMnist (Caldas et al., 2018): handwritten characters by their writers, in any number of LEAF's JSON files."""

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

from fedpan_exp.data.files import File, Files, archive
from fedpan_exp.data.images import DatasetSplits, ImageTensors, labels
from fedpan_exp.data.source import Source
from fedpan_exp.system.console import progress_bar
from fedpan_exp.system.errors import DataError, first_line

CLASSES, SIDE = 62, 28
PATTERN = re.compile(r"(^|/)(all_data|train|test|femnist)[^/]*\.json(\.gz|\.xz)?$")
STAGES = ({"train", "test"}, {"rem_user_data"}, {"sampled_data"}, {"all_data"})  # LEAF's folders, the last step first
Samples = tuple[np.ndarray, torch.Tensor]


def _read(files: Files) -> DatasetSplits:
    """All samples of all writers, as the training set; writers are drawn and samples held out at each run's start."""
    parts: dict[str, dict[str, Samples]] = {}  # by file and writer
    loose = Files(files.folder, _last_stage(files.names), files.fingerprint)
    with progress_bar("read femnist", len(loose.names), log_lines=5) as progress:
        for _, file in loose.matching(PATTERN):
            parts[file.name] = _writers(file)
            progress.advance()
            progress.describe(f"{file.name}: {len(parts[file.name]):,} writers")
    pieces: dict[str, list[Samples]] = {}
    seen: dict[tuple[str, bytes], str] = {}
    for name in _last_stage(parts):  # once more: only now an archive's members are known
        for writer, samples in parts[name].items():
            pieces.setdefault(writer, []).append(samples)
            twin = seen.setdefault((writer, sha256(samples[0].tobytes()).digest()), name)
            if twin != name:
                raise DataError(f"{name} and {twin} hold the same samples of user {writer}; leave one of them")
    if not pieces:
        raise DataError(f"{files.folder} names no writers; it takes the files that LEAF's preprocess.sh makes")
    writers = sorted(pieces)
    x = torch.from_numpy(np.concatenate([x for writer in writers for x, _ in pieces[writer]]))
    y = torch.cat([y for writer in writers for _, y in pieces[writer]])
    counts = torch.tensor([sum(len(y) for _, y in pieces[writer]) for writer in writers])
    users = torch.arange(len(writers)).repeat_interleave(counts)
    return DatasetSplits(ImageTensors(x, y, users), ImageTensors(x[:0], y[:0], users[:0]), tuple(writers))


def _last_stage(names: Iterable[str]) -> list[str]:
    """LEAF leaves each step of its work in a folder of its own; one of them counts, or samples would be doubled."""
    names = sorted(names)
    for stage in STAGES:
        chosen = [name for name in names if PurePath(name).parent.name in stage]
        if chosen:
            return chosen
    return names


def _writers(file: File) -> dict[str, Samples]:
    content = file.read()
    try:
        part = json.loads(content)
        pairs = zip(part["users"], part["num_samples"], strict=True)
        return {writer: _samples(file, writer, count, part["user_data"].get(writer)) for writer, count in pairs}
    except DataError:
        raise
    except Exception as error:  # whatever a file of another kind makes us stumble over
        reason = f"no {error}" if isinstance(error, KeyError) else first_line(error)
        raise DataError(f"{file.name} is not a LEAF file ({reason}); make it again with LEAF's preprocess.sh") from None


def _samples(file: File, writer: str, count: int, samples: Any) -> Samples:
    x, y = (samples.get(letter, []) for letter in "xy") if isinstance(samples, dict) else ([], [])
    if not len(x) == len(y) == count > 0:
        what = f"{len(x)} images and {len(y)} labels for the {count} samples"
        raise DataError(f"{file.name} has {what} of its user {writer}; make it again with LEAF's preprocess.sh")
    try:
        pixels = np.asarray(x, np.float32).reshape(count, 1, SIDE, SIDE)
    except ValueError:
        raise DataError(f"{file.name} has an image of its user {writer} that is not of {SIDE}x{SIDE}") from None
    if not (pixels.min() >= 0 and pixels.max() <= 1):
        raise DataError(f"{file.name} has pixels of its user {writer} that are not from 0 to 1; make it again")
    return np.rint(pixels * 255).astype(np.uint8), labels(y, CLASSES, f"{file.name}, user {writer},")


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
