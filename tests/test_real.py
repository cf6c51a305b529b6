"""Runs on real data, and from an installed wheel."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from fedpan_exp.system.atomic_io import read_json

pytestmark = pytest.mark.slow
REPO = Path(__file__).parents[1]
DATA = f"dataset.root={REPO / 'data'}"  # downloaded once for all test runs


def test_the_default_job_learns_mnist(command):
    ended = command(DATA, "fl_scene.H=6", "fl_scene.alpha=1", "model.width=256")
    assert ended.code == 0, ended.err
    assert read_json(ended.runs[0] / "summary.json")["summary/final_acc"] > 0.85


def test_vgg9_on_cifar10(command):
    scene = [f"fl_scene.{setting}" for setting in ("H=1", "K=100", "R=0.02", "E=1")]
    ended = command(DATA, "model=vgg9", "dataset=cifar10", *scene)
    assert ended.code == 0, ended.err
    assert "round 1/1" in ended.out


def test_a_wheel_runs_in_any_folder(tmp_path):
    """The wheel contains conf/ and sweeps/. It uses the dependencies of this environment, to save installing torch."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, REPO],
        check=True,
        capture_output=True,
    )
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", next(tmp_path.glob("*.whl"))], check=True)
    site = next((tmp_path / "venv").glob("lib/*/site-packages"))
    dependencies = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "dependencies.pth").write_text(dependencies)
    (tmp_path / "elsewhere").mkdir()

    def call(*args: str) -> str:
        return subprocess.run(
            [python, *args], cwd=tmp_path / "elsewhere", capture_output=True, text=True, check=True
        ).stdout

    assert call("-c", "import fedpan_exp; print(fedpan_exp.__file__)").startswith(str(site))
    assert "round 2/2" in call("-m", "fedpan_exp", "dataset=digits", "fl_scene.H=2")
    assert "sweeps\n    A " in call("-m", "fedpan_exp", "--help")
    assert len(list((tmp_path / "elsewhere" / "runs").glob("federate-digits-*"))) == 1
