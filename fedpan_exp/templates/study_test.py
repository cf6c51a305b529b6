"""The study records what it says."""

from pathlib import Path

import fedpan_exp as fp


def test_the_norms_are_those_of_the_network(tmp_path: Path) -> None:
    settings = ("plugins=[example.py]", "study=example", "dataset=digits", "model.width=4")
    result = fp.run(*settings, f"runs={tmp_path}")
    weights = dict(fp.experiment(*settings).network().named_parameters())
    assert result.status == "done"
    assert result.summary["summary/head.weight"] == weights["head.weight"].norm().item()
