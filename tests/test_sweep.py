"""Sweeps: all jobs checked first, each experiment run once, shared between processes, resumed."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import hydra
import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, RunMode
from processes import child, ended, wait_for
from sweep_runs import SMOKE, runs, status

from fedpan_exp.sweeping import manifest
from fedpan_exp.sweeping.jobs import read_jobs
from fedpan_exp.sweeping.progress import SweepProgress
from fedpan_exp.system.atomic_io import read_json, read_lines, write_json
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.paths import CONF
from fedpan_exp.tracking.record import Record
from fedpan_exp.tracking.runs import find_runs

DIVERGING = ("training.clip=null", "training.warmup=none", "fl_scene.E=3")  # with a large learning rate


def test_all_errors_of_a_sweep_are_reported_before_the_first_job_starts(command):
    ended = command("-m", *SMOKE, "pan.A=-1,0.1,-2", "seed=0,1")
    assert ended.code == 1
    assert ended.err == (
        "fedpan_exp: pan.A must be at least 0, got -1.0\n"
        "fedpan_exp: pan.A must be at least 0, got -2.0; nothing was started, though 2 other jobs are valid\n"
    )
    assert not Path("runs").exists()


def test_an_invalid_network_is_reported_before_the_first_job_starts(command):
    """Also with PANs off, where the encodings are never inspected."""
    ended = command("-m", "scale=smoke", "model=vgg9", "model.norm=gn1,gn5", "pan=off")
    rule = "model.norm must be gn<groups> with groups dividing the width 32, got gn5"
    assert (ended.code, ended.err) == (1, f"fedpan_exp: {rule}; nothing was started, though 1 other job is valid\n")
    assert not Path("runs").exists()


def test_incompatible_settings_are_reported_before_the_first_job_starts(command):
    ended = command("sweeps=assign", "scale=smoke", "study.layers=[fc1],[conv9]")
    assert ended.code == 1
    assert ended.err.endswith("got conv9; did you mean conv6?; nothing was started, though 2 other jobs are valid\n")
    assert ended.err.count("\n") == 1
    assert not Path("runs").exists()


def test_the_baseline_of_a_sweep_needs_no_amplitude(command):
    swept = command("-m", "pan=off,mul", "pan.A=0.2,0.5", *SMOKE, "fl_scene.H=1")
    assert swept.code == 0, swept.err
    assert sorted(name.split("-")[4] for name in runs(Path())) == ["mul0.2", "mul0.5", "off"]
    assert command("pan=off", "pan.A=0.2").code == 1  # in a single run it is a contradiction


def test_commands_that_add_to_a_sweep_at_once_lose_no_run(tmp_path):
    jobs = read_jobs(*SMOKE, "seed=range(8)", f"runs={tmp_path}")
    for job in jobs:
        job.record.folder.mkdir(parents=True)
    writers = []
    start, go = os.pipe()
    for job in jobs:
        writer = os.fork()
        if not writer:
            os.close(go)
            os.read(start, 1)  # until all of them can start
            manifest.write("mine", [job], "command")
            os._exit(0)
        writers.append(writer)
    os.close(go)
    assert [os.waitpid(writer, 0)[1] for writer in writers] == [0] * len(jobs)
    os.close(start)
    listed = read_json(tmp_path / ".sweeps" / "mine-smoke.json")["jobs"]
    assert {each["run"] for each in listed} == {job.name for job in jobs}


def test_a_run_that_ends_while_others_are_polled_is_shown_once(command, capsys):
    """The launcher's thread and the one that polls look at the same time."""
    overrides = (*SMOKE, "fl_scene.H=1", "seed=range(3)")
    jobs, progress = read_jobs(*overrides), SweepProgress("mine")
    progress.add(jobs, jobs)
    assert command("-m", *overrides).code == 0
    capsys.readouterr()
    together = threading.Barrier(8)

    def look(_: int) -> None:
        together.wait()
        progress.show_done()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(look, range(8)))
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_sweep_records_the_runs_it_covers(command):
    """Later seeds are added to the list; a grid of the command line is not listed."""
    overrides = ("sweeps=alpha", *SMOKE, "fl_scene.alpha=10,1")
    for seed in (0, 1):
        assert command(*overrides, f"seed={seed}").code == 0
    (file,) = Path("runs/.sweeps").iterdir()
    assert file.name == "alpha-smoke.json"
    manifest = read_json(file)
    assert {job["run"] for job in manifest["jobs"]} == runs(Path()).keys()
    assert manifest["swept"] == ["pan", "fl_scene.alpha", "seed"]
    missing = manifest["jobs"][0]["run"]
    shutil.rmtree(Path("runs") / missing)
    statuses = {entry.name: entry.status for entry in find_runs([Path("runs")], sweep="alpha")}
    assert statuses == {job["run"]: "missing" if job["run"] == missing else "done" for job in manifest["jobs"]}
    with pytest.raises(
        ConfigError, match=r"--sweep must be a sweep that was started in these folders \(alpha\), got K"
    ):
        find_runs([Path("runs")], sweep="K")
    assert command("-m", *SMOKE, "seed=2,3").code == 0
    assert [file] == list(Path("runs/.sweeps").iterdir())


def test_a_failing_job_stops_neither_its_grid_nor_the_next(command):
    """All runs diverge with this learning rate; the exit code is 1."""
    swept = command("sweeps=A", *SMOKE, *DIVERGING, "training.lr=1e12", "pan.A=0.05,0.1")
    assert swept.code == 1
    assert "diverged in round" in swept.err
    assert {status(path) for path in runs(Path()).values()} == {"diverged"}
    assert len(runs(Path())) == 4  # two of each grid
    assert swept.err.endswith("fedpan_exp: 4 of 4 runs failed\n")


@pytest.mark.parametrize("jobs", [[{"overrides": []}, "text"], 7, None])
def test_a_list_of_runs_that_was_damaged_by_hand(tmp_path, jobs):
    folder = tmp_path / ".sweeps"
    folder.mkdir()
    write_json(folder / "alpha-smoke.json", {"sweep": "alpha", "jobs": jobs})
    assert find_runs([tmp_path], sweep="alpha") == []


def test_a_sweep_stops_at_the_first_error_if_asked_to(command):
    overrides = (*SMOKE, *DIVERGING, "training.lr=0.05,1e12,0.06")
    swept = command("-m", *overrides, "on_error=stop")
    assert swept.code == 1
    assert re.fullmatch(
        r"fedpan_exp: training.lr=1000000000000.0: diverged .*\nfedpan_exp: 1 of 3 runs failed\n", swept.err
    )
    assert "sweep  1 done, 1 diverged, 1 not started, in runs" in swept.out
    assert command("-m", *overrides, "on_error=stop").code == 0  # what has diverged is finished
    assert len(runs(Path())) == 3
    wrong = command("-m", *overrides, "on_error=halt")
    assert wrong.err == "fedpan_exp: on_error must be continue or stop, got halt\n"


def test_one_job_of_a_sweep_can_be_run_alone(command):
    """As the commands of `fedpan_exp.runs --retry` do."""
    assert command("hydra.mode=RUN", "sweeps=T", *SMOKE, "pan=mul", "pan.T=4").code == 0
    (only,) = runs(Path()).values()
    assert "mul0.1" in only.name


def test_hydra_instantiates_the_sweeper():
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose("config", ["sweeps=alpha"], return_hydra_config=True)
        context = HydraContext(GlobalHydra.instance().config_loader(), None)
    assert cfg.hydra.mode == RunMode.MULTIRUN
    sweeper = Plugins.instance().instantiate_sweeper(hydra_context=context, task_function=print, config=cfg)
    assert type(sweeper).__name__ == "FedpanSweeper"
    assert isinstance(sweeper, Sweeper)


@pytest.fixture
def config_dir(tmp_path) -> str:
    """A folder with an option of one's own."""
    (tmp_path / "mine/pan").mkdir(parents=True)
    (tmp_path / "mine/pan/tiny.yaml").write_text("mode: mul\nA: 0.01\nT: 1\n")
    return str(tmp_path / "mine")


@pytest.mark.slow
def test_every_command_works_with_hydras_other_flags(command, config_dir):
    flags = ("--config-dir", config_dir)
    planned = command(*flags, *SMOKE, "pan=tiny", "plan=true")
    assert "1, of which 0 repeat another job's experiment: 1 run" in planned.out, planned.err
    planned = command(*flags, "sweeps=alpha", *SMOKE, "pan=off,tiny", "plan=true")
    assert "8, of which 0 repeat another job's experiment: 8 runs" in planned.out, planned.err
    assert not Path("runs").exists()
    for multirun in ((), ("-m",)):
        swept = command(*flags, *multirun, "sweeps=alpha", *SMOKE, "pan=tiny", "fl_scene.alpha=1,10")
        assert swept.code == 0, swept.err
        assert len(runs(Path())) == 2
    assert "sweep  2 done, in runs" in command(*flags, "-m", *SMOKE, "pan=tiny", "fl_scene.alpha=1,10").out
    assert all("mul0.01" in name for name in runs(Path()))


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--cfg", "job"), "scale: smoke"),
        (("--cfg", "hydra"), "_target_: hydra_plugins.fedpan_sweeper.FedpanSweeper"),
    ],
)
def test_hydras_information_about_a_sweep(command, flags, text):
    shown = command("sweeps=alpha", "scale=smoke", *flags)
    assert shown.code == 0, shown.err
    assert text in shown.out
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--hydra-help",), "hydra/sweeper: basic, fedpan, optuna"),
        (("sweeps=alpha", "--info", "defaults"), "hydra/sweeper/fedpan"),
    ],
)
def test_hydra_knows_the_sweeper(tmp_path, flags, text):
    """In a process of its own: Hydra changes the logging for good."""
    assert ended(child(tmp_path, *flags)) == 0
    assert text in (tmp_path / "output").read_text()


def test_an_option_between_settings(command):
    ended = command("scale=smoke", "-m", "seed=0,1")
    assert (ended.code, ended.err) == (
        1,
        "fedpan_exp: -m must come before the settings: python -m fedpan_exp -m ...\n",
    )


def test_a_grid_over_all_options_of_a_group():
    jobs = read_jobs(*SMOKE, "algorithm=glob(fed*o*)")
    assert [job.experiment.algorithm.name for job in jobs] == ["fednova", "fedopt", "fedprox"]


@pytest.mark.parametrize("overrides", [("sweeps=alpha,K",), ("sweeps=alpha", "scale=laptop,smoke")])
def test_two_sweeps_in_one_command_are_rejected(command, overrides):
    ended = command("-m", *overrides, "plan=true")
    assert ended.code == 1
    assert ended.err.endswith(f"must be a single option with sweeps=..., got {overrides[-1].partition('=')[2]}\n")


def test_a_grid_without_values(command):
    ended = command("-m", *SMOKE, "seed=range(0,0)")
    assert (ended.code, ended.err) == (1, "fedpan_exp: seed must have values, got none in seed=range(0,0)\n")
    assert not Path("runs").exists()


def timeless(folder: Path) -> dict[str, list[dict]]:
    return {
        name: [{k: v for k, v in record.items() if "time/" not in k} for record in read_lines(path / "metrics.jsonl")]
        for name, path in runs(folder).items()
    }


OVERRIDES = ("sweeps=alpha", *SMOKE, "fl_scene.H=20", "checkpoint.every=5")


@pytest.mark.slow
def test_a_killed_sweep_resumes_with_what_is_left(tmp_path):
    assert ended(child(tmp_path / "straight", *OVERRIDES)) == 0
    process = child(tmp_path / "killed", *OVERRIDES)
    wait_for(lambda: len(runs(tmp_path / "killed")) >= 4)
    os.kill(process, signal.SIGKILL)
    ended(process)
    finished = [path for path in runs(tmp_path / "killed").values() if status(path) == "done"]
    assert finished
    before = {path: (path / "metrics.jsonl").stat().st_mtime_ns for path in finished}
    assert ended(child(tmp_path / "killed", *OVERRIDES)) == 0
    assert all((path / "metrics.jsonl").stat().st_mtime_ns == time for path, time in before.items())
    assert {status(path) for path in runs(tmp_path / "killed").values()} == {"done"}
    assert timeless(tmp_path / "killed") == timeless(tmp_path / "straight")


@pytest.mark.slow
def test_two_processes_share_the_jobs_of_a_sweep(tmp_path):
    start = Record.start

    def log_start(record: Record, *args, **kwargs) -> list[dict]:
        with (tmp_path / "starts").open("a") as file:
            file.write(f"{record.name}\n")
        return start(record, *args, **kwargs)

    both = [child(tmp_path, *OVERRIDES, prepare=lambda: setattr(Record, "start", log_start)) for _ in range(2)]
    assert [ended(process) for process in both] == [0, 0]
    assert len(runs(tmp_path)) == 8
    assert sorted((tmp_path / "starts").read_text().split()) == sorted(runs(tmp_path))  # each run once
    for path in runs(tmp_path).values():
        assert [record["round"] for record in read_lines(path / "metrics.jsonl")] == [*range(1, 21)]
    assert {status(path) for path in runs(tmp_path).values()} == {"done"}
    workers = {read_json(path / "status.json")["process"] for path in runs(tmp_path).values()}
    assert workers == set(both)


@pytest.mark.slow
def test_all_launchers_give_the_same_numbers(tmp_path):
    """joblib, and submitit with this machine as the only node."""
    command = [sys.executable, "-m", "fedpan_exp", "-m", *SMOKE, "algorithm=fedavg,scaffold", "seed=0,1"]
    weights = {}
    for launcher in ("basic", "cores", "submitit_local"):
        (tmp_path / launcher).mkdir()
        done = subprocess.run(
            [*command, f"hydra/launcher={launcher}"],
            cwd=tmp_path / launcher,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert "sweep  4 done, in runs" in done.stdout
        folders = runs(tmp_path / launcher)
        weights[launcher] = {name: (path / "weights.safetensors").read_bytes() for name, path in folders.items()}
    assert len(weights["basic"]) == 4
    assert weights["basic"] == weights["cores"] == weights["submitit_local"]


@pytest.mark.slow
def test_a_killed_process_of_the_launcher_costs_no_run(tmp_path):
    """joblib gives up all jobs when a process dies; the sweep launches them again, and the killed run resumes."""
    command = [sys.executable, "-m", "fedpan_exp", "-m", *SMOKE, "fl_scene.H=150", "fl_scene.B=64", "ranks=1"]
    command += ["seed=0,1,2,3,4", "hydra/launcher=cores"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: any((path / "metrics.jsonl").exists() for path in runs(tmp_path).values()))
    first = next(path for path in runs(tmp_path).values() if (path / "metrics.jsonl").exists())
    os.kill(read_json(first / "status.json")["process"], signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "warning: a process of the launcher has ended" in errors
    assert [status(path) for path in runs(tmp_path).values()] == ["done"] * 5


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["cores", "submitit_local"])
def test_a_killed_parallel_sweep_resumes_with_what_is_left(tmp_path, launcher):
    """The sweep and the processes of its launcher are killed; submitit's are in sessions of their own."""
    command = [sys.executable, "-m", "fedpan_exp", "-m", *SMOKE, "fl_scene.B=64", "ranks=1", "checkpoint.every=5"]
    command += ["fl_scene.H=3,200", "seed=0,1", f"hydra/launcher={launcher}"]
    started = 4 if launcher == "submitit_local" else 3

    def is_in_the_middle() -> bool:
        statuses = [status(path) for path in runs(tmp_path).values()]
        return len(statuses) >= started and {"done", "running"} <= set(statuses)

    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        wait_for(is_in_the_middle, every=0.02)
        os.killpg(process.pid, signal.SIGKILL)
    folders = runs(tmp_path).values()
    for path in folders:
        if status(path) == "running":
            with suppress(ProcessLookupError):
                os.kill(read_json(path / "status.json")["process"], signal.SIGKILL)
    finished = {path: (path / "metrics.jsonl").stat().st_mtime_ns for path in folders if status(path) == "done"}
    assert 1 <= len(finished) < 4
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert f"4 runs, {len(finished)} finished before" in again.stdout
    assert all((path / "metrics.jsonl").stat().st_mtime_ns == time for path, time in finished.items())
    assert [status(path) for path in runs(tmp_path).values()] == ["done"] * 4
    rounds = [[record["round"] for record in read_lines(path / "metrics.jsonl")] for path in runs(tmp_path).values()]
    assert sorted(rounds) == [[*range(1, 4)]] * 2 + [[*range(1, 201)]] * 2


def test_a_search_finds_the_best_of_its_trials(command):
    searched = command("sweeps=search", *SMOKE, "hydra.sweeper.n_trials=3", "training.lr=0.05")
    assert searched.code == 0, searched.err
    best = max(read_json(path / "summary.json")["summary/last5_acc"] for path in runs(Path()).values())
    assert f"best: {best:.2%} with pan=" in searched.out


def test_a_launcher_without_its_package(command):
    ended = command("sweeps=alpha", *SMOKE, "hydra/launcher=ray_cluster")
    assert (ended.code, ended.err) == (
        1,
        "fedpan_exp: hydra/launcher/ray needs its package: pip install hydra-ray-launcher\n",
    )
