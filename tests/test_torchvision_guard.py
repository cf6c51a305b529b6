"""torchvision, and with it lightning, can be imported in any order beside any build of torch."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("first", ["torchvision", "lightning", "torch"])
def test_import_order_does_not_matter(first):
    code = f"import fedpan_exp, {first}, torchvision, lightning.fabric; print(torchvision.datasets.MNIST.__name__)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout == "MNIST\n", ended.stderr


def test_the_package_itself_is_light():
    code = "import sys, fedpan_exp, fedpan_exp.cli; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
