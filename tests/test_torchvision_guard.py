"""torchvision and lightning can be imported in any order, with any build of torch."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("first", ["torchvision", "lightning", "torch"])
def test_import_order_does_not_matter(first):
    code = f"import fedpan_exp, {first}, torchvision, lightning.fabric; print(torchvision.datasets.MNIST.__name__)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout == "MNIST\n", ended.stderr


def test_importing_the_package_does_not_import_torch():
    code = "import sys, fedpan_exp, fedpan_exp.cli; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
