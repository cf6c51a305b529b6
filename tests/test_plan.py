"""plan=true: what a command would run, and what it would cost."""

import re
from pathlib import Path

import pytest
from official_files import write_femnist
from sweep_runs import SMOKE, job_lines, runs

from fedpan_exp.sweeping import cost
from fedpan_exp.sweeping.jobs import read_jobs
from fedpan_exp.system.atomic_io import read_lines


@pytest.mark.slow
def test_the_plan_and_the_sweep_count_the_same_experiment_once(command):
    """T does not apply when PANs are off, and T=8, 16 and 32 have no effect at width 16: 21 jobs are 9 runs."""
    planned = command("sweeps=T", *SMOKE, "plan=True")
    assert planned.code == 0, planned.err
    assert "21, of which 12 repeat another job's experiment: 9 runs" in planned.out
    assert "0 done, 0 started, 0 locked, 9 to do" in planned.out
    (kind,) = planned.out.split("\n\n")[-1].splitlines()[1:]
    assert re.fullmatch(r"federate +digits +mlp +\d +9 +\d:\d\d", kind.strip()), kind
    assert not Path("runs").exists()

    swept = command("sweeps=T", *SMOKE)
    assert swept.code == 0, swept.err
    assert len(runs(Path())) == 9
    assert len([name for name in runs(Path()) if "-off-" in name]) == 1
    assert "sweep  T, 21 jobs share 9 runs, 0 finished before\n" in swept.out
    lines = job_lines(swept.out)
    assert len(lines) == 9
    assert re.fullmatch(r"sweep  2/9  pan=add  pan\.T=1   +\d+\.\d\d%  \d:\d\d  \d:\d\d left", lines[1])
    assert re.fullmatch(r"sweep  9/9  pan=mul  pan\.T=12  +\d+\.\d\d%  \d:\d\d", lines[-1])
    assert "  algorithm " not in swept.out  # the settings are in config.yaml

    again = command("sweeps=T", *SMOKE)
    assert again.code == 0
    assert [line.endswith("%  done before") for line in job_lines(again.out)] == [True] * 9
    assert job_lines(again.out)[1].startswith("sweep  2/9  ")
    assert "9 done, 0 started, 0 locked, 0 to do" in command("sweeps=T", *SMOKE, "plan=true").out


def test_a_plan_counts_users_if_they_are_the_clients(tmp_path):
    """fl_scene.K=0 means all users: half of 10 are in a round, not one."""
    write_femnist(tmp_path, users=10)
    settings = (
        "dataset.user_share=1",
        "model.width=8",
        "fl_scene.R=0.5",
        "fl_scene.H=3",
        "fl_scene.E=1",
        f"runs={tmp_path}",
    )
    (job,) = read_jobs("dataset=femnist", f"dataset.root={tmp_path}", *settings)
    assert job.experiment.fl_scene.K == 0
    (estimate,) = cost.estimate_costs([job])
    per_client = cost.count_work(job.experiment, clients=10).sent_bytes
    assert estimate.sent_bytes == 3 * 5 * per_client


def test_a_plan_takes_the_speed_of_earlier_runs(command):
    (folder,) = command(*SMOKE, "fl_scene.H=3").runs
    rounds = read_lines(folder / "metrics.jsonl")
    (sample_s,) = cost.earlier_speeds({folder.parent}).values()
    assert sample_s == pytest.approx(
        sum(each["time/round_s"] for each in rounds) / sum(each["train/samples"] for each in rounds)
    )
    (job,) = read_jobs(*SMOKE, "fl_scene.H=6")
    (estimate,) = cost.estimate_costs([job])
    scene = job.experiment.fl_scene
    samples = 6 * scene.cohort_size(scene.K) * scene.local_samples(1437 / scene.K)
    assert estimate.seconds == pytest.approx(samples * sample_s)


def test_a_plan_counts_the_training_of_the_server():
    jobs = read_jobs(*SMOKE, "algorithm=feddf", "fl_scene.reserve=0.1", "algorithm.B=32", "algorithm.steps=0,70")
    clients_only, both = cost.estimate_costs(jobs)  # timed once
    scene = jobs[0].experiment.fl_scene
    visited = scene.cohort_size(scene.K) * scene.local_samples(1437 * 0.9 / scene.K)
    assert both.seconds / clients_only.seconds == pytest.approx(1 + 70 * 32 / visited)


def test_a_plan_counts_the_rounds_that_are_left(command):
    assert command(*SMOKE, "fl_scene.H=3").code == 0
    for setting, rounds, state in (("rerun=false", 0, "1 done"), ("rerun=true", 3, "0 started, 0 locked, 1 to do")):
        (job,) = read_jobs(*SMOKE, "fl_scene.H=3", setting)
        assert job.rounds_left == rounds
        assert state in command(*SMOKE, "fl_scene.H=3", setting, "plan=true").out


def test_a_plan_ignores_folders_that_are_no_runs(command):
    (folder,) = command(*SMOKE, "fl_scene.H=2").runs
    for content in ("a: 1", "[1, 2]"):
        (folder / "config.yaml").write_text(content)
        assert command(*SMOKE, "fl_scene.H=3", "plan=true").code == 0
