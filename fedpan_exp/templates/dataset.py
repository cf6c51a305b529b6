"""A dataset: black images with a white bar, whose position is the class.

python -m fedpan_exp plugins=[example.py] dataset=example model=mlp
"""

from pathlib import Path

import torch

from fedpan_exp.data import DatasetSplits, ImageTensors

SIZE = 8  # pixels per side, and classes


def load_example(root: Path) -> DatasetSplits:
    """A white bar in one of 8 places, in noise."""
    # Read files below `root` (dataset.root) here. Images are uint8 [N, C, H, W], labels int64 [N].
    generator = torch.Generator().manual_seed(0)

    def draw(samples: int) -> ImageTensors:
        y = torch.arange(samples) % SIZE
        x = torch.randint(0, 100, (samples, 1, SIZE, SIZE), dtype=torch.uint8, generator=generator)
        x[torch.arange(samples), 0, y] = 255
        return ImageTensors(x, y)

    return DatasetSplits(draw(800), draw(160))


DATASETS = {"example": load_example}
