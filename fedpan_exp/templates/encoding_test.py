"""The encoding has the values of its formula in the network."""

import fedpan_exp as fp
from fedpan_exp.models import encodings


def test_the_network_has_its_values() -> None:
    settings = ("plugins=[example.py]", "dataset=digits", "model.width=4", "pan=mul", "pan.A=0.5", "pan.T=1")
    first, *_ = encodings(fp.experiment(*settings, "pan.encoding=example").network())
    assert first.values.tolist() == [0.5, 1.0, 1.5, 1.0]
