"""Decode many small image files into one tensor, on all cores and with a progress bar."""

import io
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import groupby, islice, pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedpan_exp.data.files import File
from fedpan_exp.system.console import progress_bar
from fedpan_exp.system.errors import DataError, first_line

T = TypeVar("T")
R = TypeVar("R")
CHUNK = 500  # files per task of a worker process


class ImageKey(NamedTuple):
    """Identifies an image. Images are sorted by it, so that a folder and any archive give the same tensor."""

    split: str
    label: str  # name of the class folder; empty if the label comes from a table
    name: str


def decode(
    files: Iterable[tuple[ImageKey, File]], size: int, label: str, expected: int
) -> dict[str, tuple[list[ImageKey], Tensor]]:
    """Decode to RGB, resized to size x size; per split, the keys and a uint8 tensor [N, 3, size, size].

    `expected` is the number of images for the progress bar.
    """
    keys: list[ImageKey] = []
    chunks: list[np.ndarray] = []
    with progress_bar(label, expected, log_lines=5) as progress:
        for chunk in _parallel_map(_decode_chunk, ((batch, size) for batch in _batches(files, keys))):
            chunks.append(chunk)
            progress.advance(len(chunk))
            progress.describe(f"{progress.done:,} of {progress.total:,} images")
    order = sorted(range(len(keys)), key=keys.__getitem__)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    x = np.empty((len(keys), 3, size, size), np.uint8)
    first = 0
    while chunks:  # each chunk is freed as soon as it is copied
        chunk = chunks.pop(0)
        x[position[first : first + len(chunk)]] = chunk.transpose(0, 3, 1, 2)
        first += len(chunk)

    splits: dict[str, tuple[list[ImageKey], Tensor]] = {}
    first = 0
    for split, group in groupby((keys[i] for i in order), key=lambda key: key.split):
        members = list(group)
        duplicate = next((key for key, next_key in pairwise(members) if key == next_key), None)
        if duplicate:
            raise DataError(f"{'/'.join(filter(None, duplicate))} exists twice; leave one copy of the dataset")
        splits[split] = members, torch.from_numpy(x[first : first + len(members)])
        first += len(members)
    return splits


def _parallel_map(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Map over items in order; they are consumed only as fast as the processes need them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # fork: a spawned interpreter would import torch first, and the children use no tensors.
    with ProcessPoolExecutor(cores, multiprocessing.get_context("fork")) as pool:
        pending: deque[Future[R]] = deque()
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) >= 4 * cores:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            raise DataError(
                "a process that decoded images was killed, possibly out of memory; run the same command again"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _batches(files: Iterable[tuple[ImageKey, File]], keys: list[ImageKey]) -> Iterator[list[File]]:
    """Yield the files in chunks and append their keys to `keys`."""
    files = iter(files)
    while batch := list(islice(files, CHUNK)):
        keys.extend(key for key, _ in batch)
        yield [file for _, file in batch]


def _decode_chunk(task: tuple[list[File], int]) -> np.ndarray:
    files, size = task
    return np.stack([_decode_one(file, size) for file in files])


def shorter_side(file: File) -> int:
    return min(_open_image(file, lambda image: image.size))


def _decode_one(file: File, size: int) -> np.ndarray:
    from PIL import Image

    pixels = _open_image(file, _to_rgb)
    return np.asarray(pixels if pixels.size == (size, size) else pixels.resize((size, size), Image.Resampling.BILINEAR))


def _to_rgb(image: Any) -> Any:
    """Convert to 8 bits per channel; PIL alone would turn every gray value of 16 bits above 255 into white."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) // 256).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise ValueError("32 bits per pixel, whose range is not known; save it with 8 or 16 bits")
    return image.convert("RGB")


def _open_image(file: File, use: Callable[[Any], R]) -> R:
    """Call `use` with the opened image; whatever is wrong with the file is one line."""
    from PIL import Image, UnidentifiedImageError

    content = file.read()
    try:
        with Image.open(io.BytesIO(content)) as image:
            return use(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # what PIL raises on bad files
        known = not isinstance(error, UnidentifiedImageError)
        reason = first_line(error) if known else "unknown image format" if content else "it is empty"
        raise DataError(f"{file.name} cannot be decoded as an image ({reason}); replace it") from None
