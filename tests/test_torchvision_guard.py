"""torchvision and lightning can be imported in any order, with any build of torch."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "first", ["torchvision", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lightning", "torch"))]
)
def test_import_order_does_not_matter(first):
    code = f"import fedpan_exp, {first}, torchvision, lightning.fabric; print(torchvision.datasets.MNIST.__name__)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout == "MNIST\n", ended.stderr
