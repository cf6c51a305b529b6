"""The examples run, and the 40-line FedAvg is ours, bit for bit."""

import json
import runpy
from pathlib import Path

import pytest
import torch

import fedpan_exp as fp

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_fedavg_in_40_lines_is_our_fedavg():
    script = runpy.run_path(str(EXAMPLES / "fedavg_in_40_lines.py"))
    *_, last = fp.federate(*script["SETTINGS"], "training.fast=false", "ranks=1")
    theirs = torch.cat([tensor.flatten() for tensor in script["main"]().values()])
    assert torch.equal(theirs, last.server.weights)
    source = (EXAMPLES / "fedavg_in_40_lines.py").read_text()
    body = source.partition("def main")[2].partition("if __name__")[0]
    assert len([line for line in body.splitlines() if line.strip()]) <= 40


@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_cell_of_a_notebook_runs(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(notebook.read_text())["cells"]
    namespace: dict = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            exec("".join(cell["source"]), namespace)
