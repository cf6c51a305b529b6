"""Thousands of small image files to one tensor: all cores, a progress bar."""

import io
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import groupby, islice, pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedpan_exp.data.files import File
from fedpan_exp.system.console import progress_bar
from fedpan_exp.system.errors import DataError, first_line

T = TypeVar("T")
R = TypeVar("R")
CHUNK = 500  # files handed to a process at a time


class Picture(NamedTuple):
    """Where an image belongs. In this order they are put, so that a folder and any archive give the same tensor."""

    split: str
    label: str  # as the folder says it; empty where it is said elsewhere
    name: str


def decode(
    files: Iterable[tuple[Picture, File]], size: int, label: str, expected: int
) -> dict[str, tuple[list[Picture], Tensor]]:
    """By split: RGB, resized to size x size where they are not; `expected` in all, as far as the progress bar knows."""
    pictures: list[Picture] = []
    chunks: list[np.ndarray] = []
    with progress_bar(label, expected, log_lines=5) as progress:
        for chunk in _on_all_cores(_decode_chunk, ((batch, size) for batch in _batches(files, pictures))):
            chunks.append(chunk)
            progress.advance(len(chunk))
            progress.describe(f"{progress.done:,} of {progress.total:,} images")
    order = sorted(range(len(pictures)), key=pictures.__getitem__)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    x = np.empty((len(pictures), 3, size, size), np.uint8)
    first = 0
    while chunks:  # each is freed as soon as it is copied
        chunk = chunks.pop(0)
        x[place[first : first + len(chunk)]] = chunk.transpose(0, 3, 1, 2)
        first += len(chunk)

    splits: dict[str, tuple[list[Picture], Tensor]] = {}
    first = 0
    for split, group in groupby((pictures[i] for i in order), key=lambda picture: picture.split):
        members = list(group)
        twice = next((one for one, next_one in pairwise(members) if one == next_one), None)
        if twice:
            raise DataError(f"{'/'.join(filter(None, twice))} is there twice; leave one copy of the dataset")
        splits[split] = members, torch.from_numpy(x[first : first + len(members)])
        first += len(members)
    return splits


def _on_all_cores(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """In the items' order; no more of them are taken than the processes can soon use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Forked, because each fresh interpreter would load torch first; the children do no tensor work.
    with ProcessPoolExecutor(cores, multiprocessing.get_context("fork")) as pool:
        under_way: deque[Future[R]] = deque()
        try:
            for item in items:
                under_way.append(pool.submit(work, item))
                if len(under_way) >= 4 * cores:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        except BrokenProcessPool:
            raise DataError(
                "a process that decoded images was killed, for want of memory perhaps; start again"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _batches(files: Iterable[tuple[Picture, File]], pictures: list[Picture]) -> Iterator[list[File]]:
    """Note what each file is, and pass the files on."""
    files = iter(files)
    while batch := list(islice(files, CHUNK)):
        pictures.extend(picture for picture, _ in batch)
        yield [file for _, file in batch]


def _decode_chunk(work: tuple[list[File], int]) -> np.ndarray:
    files, size = work
    return np.stack([_decode_one(file, size) for file in files])


def _decode_one(file: File, size: int) -> np.ndarray:
    from PIL import Image, UnidentifiedImageError

    content = file.read()
    try:
        with Image.open(io.BytesIO(content)) as image:
            pixels = image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # all mean: not such a picture
        known = not isinstance(error, UnidentifiedImageError)
        reason = first_line(error) if known else "of no known kind" if content else "it is empty"
        raise DataError(f"{file.name} does not decode as an image ({reason}); replace it") from None
    return np.asarray(pixels if pixels.size == (size, size) else pixels.resize((size, size), Image.Resampling.BILINEAR))
