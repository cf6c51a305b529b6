"""The ledger: what became of every run."""

import json
import os
import signal
import subprocess
import sys

import pytest
from processes import SMALL, child, ended, wait_for

from conftest import WILD


@pytest.mark.slow
def test_the_ledger_tells_and_retries(tmp_path):
    """Done, diverged, killed: each by its name, the killed one finished by --retry."""
    ledger = [sys.executable, "-m", "fedpan_exp.runs"]

    def ask(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run([*ledger, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300)

    assert ended(child(tmp_path, *SMALL)) == 0
    assert ended(child(tmp_path, *SMALL, *WILD, "algorithm=fedprox")) == 1
    long = (*SMALL, "algorithm=scaffold", "fl_scene.H=400", "rerun=true")
    process = child(tmp_path, *long)
    wait_for(lambda: list(tmp_path.glob("runs/*scaffold*/metrics.jsonl")))
    assert "running\tfederate-digits-mlp-scaffold" in ask("algorithm=scaffold").stdout
    os.kill(process, signal.SIGKILL)
    ended(process)

    lines = dict(line.split("\t", 1) for line in ask().stdout.splitlines())
    assert lines.keys() == {"done", "diverged", "interrupted"}
    assert "12/12" in lines["done"]
    assert "diverged in round" in lines["diverged"]
    assert f"its process {process} on " in lines["interrupted"]
    (found,) = json.loads(ask("status=interrupted", "fl_scene.K=12", "--json").stdout)
    assert found["settings"]["algorithm"]["name"] == "scaffold"
    retry = ask("--retry").stdout
    assert retry.count("\n") == 1
    assert retry.startswith("python -m fedpan_exp hydra.mode=RUN dataset=digits")
    assert ask("status=interrupted", "fl_scene.K=12.0", "--retry", "run").returncode == 0
    assert not ask("status=interrupted").stdout
    assert ask("status=done", "algorithm=scaffold").stdout.startswith("done\t")
    assert ask("seed=[").returncode == 0
    assert ask("fl_scene.Q=1").stderr == "fedpan_exp: fl_scene.Q is not a setting of any run here\n"
    assert ask("nowhere").stderr == "fedpan_exp: there is no folder nowhere\n"
