"""python -m fedpan_exp.runs: the status of every run."""

import json
import os
import signal
import subprocess
import sys

import pytest
from processes import SMALL, child, ended, wait_for

from conftest import WILD, experiment
from fedpan_exp import runs
from fedpan_exp.report import load
from fedpan_exp.studies import load_studies
from fedpan_exp.system.atomic_io import read_json, write_json
from fedpan_exp.tracking.runs import RunEntry

DOCTOR = ("study=doctor", "dataset=digits", "model.width=16")


@pytest.mark.slow
def test_the_table_shows_every_status_and_retry_resumes(tmp_path):
    """One run is done, one diverged, one was killed and is finished by --retry."""
    program = [sys.executable, "-m", "fedpan_exp.runs"]

    def list_runs(*args: str) -> subprocess.CompletedProcess:
        return subprocess.run([*program, *args], cwd=tmp_path, capture_output=True, text=True, timeout=300)

    assert ended(child(tmp_path, *SMALL)) == 0
    assert ended(child(tmp_path, *SMALL, *WILD, "algorithm=fedprox")) == 1
    long = (*SMALL, "algorithm=scaffold", "fl_scene.H=400", "rerun=true")
    process = child(tmp_path, *long)
    wait_for(lambda: list(tmp_path.glob("runs/*scaffold*/metrics.jsonl")))
    assert "running\tfederate-digits-mlp-scaffold" in list_runs("algorithm=scaffold").stdout
    os.kill(process, signal.SIGKILL)
    ended(process)

    lines = dict(line.split("\t", 1) for line in list_runs().stdout.splitlines())
    assert lines.keys() == {"done", "diverged", "interrupted"}
    assert "12/12" in lines["done"]
    assert "diverged in round" in lines["diverged"]
    assert f"its process {process} on " in lines["interrupted"]
    (run,) = json.loads(list_runs("status=interrupted", "fl_scene.K=12", "--json").stdout)
    assert run["settings"]["algorithm"]["name"] == "scaffold"
    retry = list_runs("--retry").stdout
    assert retry.count("\n") == 1
    assert retry.startswith("python -m fedpan_exp hydra.mode=RUN dataset=digits")
    assert list_runs("status=interrupted", "fl_scene.K=12.0", "--retry", "run").returncode == 0
    assert not list_runs("status=interrupted").stdout
    assert list_runs("status=done", "algorithm=scaffold").stdout.startswith("done\t")
    assert list_runs("seed=[").returncode == 0
    assert list_runs("fl_scene.Q=1").stderr == "fedpan_exp: fl_scene.Q is not a setting of any of these runs\n"
    assert list_runs("nowhere").stderr == "fedpan_exp: there is no folder nowhere\n"


@pytest.mark.parametrize(("pan", "recorded"), [("pan.T=8", "off"), ("pan=off", "off"), ("pan.T=1", "on")])
def test_a_run_records_whether_pans_are_off(command, pan, recorded):
    """T=8 has no effect at width 16. The name of the folder does not matter."""
    (folder,) = command(*DOCTOR, pan).runs
    assert read_json(folder / "status.json")["pans"] == recorded
    renamed = folder.rename(folder.with_name("a-run"))
    assert RunEntry(renamed).pans_off == (recorded == "off")
    assert load(renamed.parent).loc["a-run", "pans"] == recorded


@pytest.mark.parametrize(("pan", "is_off"), [("pan=off", True), ("pan.A=0", True), ("pan=add", False)])
def test_a_run_of_an_older_version_has_pans_off_by_mode_or_A(command, pan, is_off):
    (folder,) = command(*DOCTOR, pan).runs
    status = read_json(folder / "status.json")
    del status["pans"]
    write_json(folder / "status.json", status)
    assert RunEntry(folder).pans_off == is_off


def test_a_study_says_how_many_rounds_it_records():
    studies = {name: experiment(f"study={name}", "fl_scene.H=7", "dataset.epochs=9") for name in load_studies()}
    totals = {name: made.study.total_rounds(made) for name, made in studies.items()}
    federated = ("federate", "shuffle_federate", "divergence", "matching", "preference", "twin")
    expected = dict.fromkeys(load_studies()) | dict.fromkeys(federated, 7) | {"centralize": 9}
    assert totals == expected


def test_the_table_shows_the_total_rounds_as_recorded(command):
    (folder,) = command("scale=smoke", "model.width=16", "fl_scene.H=3").runs
    status = read_json(folder / "status.json")
    assert status["total_rounds"] == 3
    assert runs.row(RunEntry(folder))[2] == "3/3"
    del status["total_rounds"]  # as older versions did
    write_json(folder / "status.json", status)
    assert runs.row(RunEntry(folder))[2] == "3"
