"""Sweeps: checked whole, planned, run once, divided, gone on with."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import child, ended, wait_for

from fedpan_exp.atomic import read_json, read_lines

SMOKE = ("scale=smoke", "model.width=16")


def runs(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in (folder / "runs").glob("federate-*")}


def test_every_mistake_of_a_sweep_is_said_before_the_first_job_starts(command):
    ended = command(*SMOKE, "-m", "pan.A=-1,0.1,-2", "seed=0,1")
    assert ended.code == 1
    assert ended.err == (
        "fedpan_exp: pan.A must be at least 0, got -1.0\n"
        "fedpan_exp: pan.A must be at least 0, got -2.0; nothing was started, though 2 other jobs are sound\n"
    )
    assert not Path("runs").exists()


def test_the_plan_and_the_sweep_count_the_same_experiment_once(command):
    """PANs off knows no T, and is what T=8, 16 and 32 are at width 16: 21 jobs are 9 runs."""
    plan = command("sweeps=T", *SMOKE, "plan=True")
    assert plan.code == 0, plan.err
    assert "21, of which 12 are the same experiment as another: 9 runs" in plan.out
    assert "0 done, 0 begun, 0 held, 9 to do" in plan.out
    assert not Path("runs").exists()

    swept = command("sweeps=T", *SMOKE)
    assert swept.code == 0, swept.err
    assert len(runs(Path())) == 9
    assert len([name for name in runs(Path()) if "-off-" in name]) == 1
    assert "sweep  job 21/21, 0 runs to go" in swept.out
    assert swept.out.count("round 2/2") == 9

    again = command("sweeps=T", *SMOKE)
    assert again.code == 0
    assert "round" not in again.out
    assert again.out.count(": done, last five") == 21
    assert "9 done, 0 begun, 0 held, 0 to do" in command("sweeps=T", *SMOKE, "plan=true").out


def timeless(folder: Path) -> dict[str, list[dict]]:
    return {
        name: [{k: v for k, v in record.items() if "time/" not in k} for record in read_lines(path / "metrics.jsonl")]
        for name, path in runs(folder).items()
    }


WORDS = ("sweeps=alpha", *SMOKE, "fl_scene.H=20", "checkpoint.every=5")


def test_a_sweep_killed_and_started_again_does_what_is_left(tmp_path):
    assert ended(child(tmp_path / "straight", *WORDS)) == 0
    process = child(tmp_path / "killed", *WORDS)
    wait_for(lambda: len(runs(tmp_path / "killed")) >= 4)
    os.kill(process, signal.SIGKILL)
    ended(process)
    finished = [path for path in runs(tmp_path / "killed").values() if status(path) == "done"]
    assert finished
    before = {path: (path / "metrics.jsonl").stat().st_mtime_ns for path in finished}
    assert ended(child(tmp_path / "killed", *WORDS)) == 0
    assert all((path / "metrics.jsonl").stat().st_mtime_ns == time for path, time in before.items())
    assert {status(path) for path in runs(tmp_path / "killed").values()} == {"done"}
    assert timeless(tmp_path / "killed") == timeless(tmp_path / "straight")


def test_a_sweep_started_twice_divides_itself(tmp_path):
    both = [child(tmp_path, *WORDS) for _ in range(2)]
    assert [ended(process) for process in both] == [0, 0]
    said = (tmp_path / "output").read_text()
    assert said.count("round 20/20") == len(runs(tmp_path)) == 8  # none twice, none left
    assert {status(path) for path in runs(tmp_path).values()} == {"done"}
    workers = {read_json(path / "status.json")["process"] for path in runs(tmp_path).values()}
    assert workers == set(both)


@pytest.mark.slow
def test_jobs_side_by_side_give_the_same_numbers(tmp_path):
    words = [sys.executable, "-m", "fedpan_exp", "-m", *SMOKE, "algorithm=fedavg,scaffold", "seed=0,1"]
    for launcher in ("basic", "joblib"):
        (tmp_path / launcher).mkdir()
        done = subprocess.run(
            [*words, f"hydra/launcher={launcher}"], cwd=tmp_path / launcher, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
    one, other = (
        {name: (path / "weights.safetensors").read_bytes() for name, path in runs(tmp_path / launcher).items()}
        for launcher in ("basic", "joblib")
    )
    assert len(one) == 4
    assert one == other


def status(folder: Path) -> str:
    return read_json(folder / "status.json").get("status", "not begun")
