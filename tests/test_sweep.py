"""Sweeps: checked whole, planned, run once, divided, gone on with."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from processes import child, ended, wait_for
from run_folders import is_drawn

from conftest import experiment
from fedpan_exp.config import compose
from fedpan_exp.report.paper_figures import PAPER_FIGURES
from fedpan_exp.report.run_collection import read_run
from fedpan_exp.report.sweeps import read_listings
from fedpan_exp.sweeping import grids, plan
from fedpan_exp.sweeping.grids import expand
from fedpan_exp.sweeping.jobs import read_jobs
from fedpan_exp.system.atomic_io import read_json, read_lines
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.paths import SWEEPS
from fedpan_exp.tracking.runs import Entry, entries

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


def test_a_network_that_cannot_be_built_is_found_before_the_first_job_starts(command):
    """Also with PANs off, whose encodings nobody has to ask for."""
    ended = command("-m", "scale=smoke", "model=vgg9", "model.norm=gn1,gn5", "pan=off")
    rule = "model.norm must be gn<groups> with groups dividing the width 32, got gn5"
    assert (ended.code, ended.err) == (1, f"fedpan_exp: {rule}; nothing was started, though 1 other jobs are sound\n")
    assert not Path("runs").exists()


def test_settings_that_do_not_go_together_are_found_before_the_first_job_starts(command):
    ended = command("sweeps=assign", "scale=smoke", "study.layers=[fc1],[conv9]")
    assert ended.code == 1
    assert ended.err.endswith("got conv9; did you mean conv6?; nothing was started, though 2 other jobs are sound\n")
    assert ended.err.count("\n") == 1
    assert not Path("runs").exists()


def test_the_plan_and_the_sweep_count_the_same_experiment_once(command):
    """PANs off knows no T, and is what T=8, 16 and 32 are at width 16: 21 jobs are 9 runs."""
    planned = command("sweeps=T", *SMOKE, "plan=True")
    assert planned.code == 0, planned.err
    assert "21, of which 12 are the same experiment as another: 9 runs" in planned.out
    assert "0 done, 0 begun, 0 held, 9 to do" in planned.out
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


def test_a_plan_counts_users_where_they_are_the_clients(command):
    """fl_scene.K=0 is as many as there are: half of 10 come to a round, not one."""
    (folder,) = command(*SMOKE).runs
    with_K = plan._recorded(Entry(folder))
    config_file = folder / "config.yaml"
    config_file.write_text(config_file.read_text().replace("  K: 10\n", "  K: 0\n"))
    assert Entry(folder).settings["fl_scene"]["K"] == 0
    assert plan._recorded(Entry(folder)) == with_K
    assert with_K.clients == 10


SWEPT = sorted(path.stem for path in SWEEPS.glob("*.yaml"))


def end(word: str, which: int) -> str:
    """The first or the last of the values a word sweeps over."""
    name, _, values = word.partition("=")
    return word if values.startswith("[") else f"{name}={values.split(',')[which]}"


@pytest.mark.parametrize("sweep", SWEPT)
def test_every_sweep_composes_and_says_what_it_is(sweep):
    """One job of each of its grids at each scale; running it will compose the rest."""
    lines = [
        [end(word, which) for word in words]
        for scale, which in (("paper", 0), ("laptop", -1), ("smoke", -1))
        for words in expand([f"sweeps={sweep}", f"scale={scale}"])
    ]
    jobs = read_jobs(lines)
    if jobs:  # a sweep that searches has none before it begins
        assert {job.experiment.scale for job in jobs.jobs} == {"paper", "laptop", "smoke"}
        assert {job.experiment.fl_scene.H for job in jobs.jobs if job.experiment.scale == "smoke"} == {2}
    text = (SWEEPS / f"{sweep}.yaml").read_text()
    assert f"#   python -m fedpan_exp sweeps={sweep}" in text
    assert "# Paper" in text


@pytest.mark.slow
@pytest.mark.parametrize("sweep", [sweep for sweep in SWEPT if sweep != "search"])
def test_every_sweep_runs_at_the_smallest_scale_and_is_drawn(command, tmp_path_factory, sweep):
    """All into one folder, as a user would, so that what sweeps share is run once; of five algorithms, two will do."""
    base = tmp_path_factory.getbasetemp()  # one a worker; without workers the folder above is all sessions'
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "smoke"
    is_large = sweep.startswith(("compare_noniid", "compare_alpha"))
    fewer = ("algorithm=fedavg,scaffold", "pan=off,mul") if is_large else ()
    swept = command(f"sweeps={sweep}", "scale=smoke", f"runs={shared}", *fewer)
    assert swept.code == 0, swept.err
    folders = {shared / job["run"] for job in read_json(shared / ".sweeps" / f"{sweep}-smoke.json")["jobs"]}
    wait_for(lambda: {status(folder) for folder in folders} == {"done"}, every=0.5)  # another sweep may have had some
    sweeps, _ = read_listings([shared], [read_run(folder) for folder in folders])
    (mine,) = (found for found in sweeps if found.name == sweep)
    (paper_figure,) = (paper_figure for paper_figure in PAPER_FIGURES if paper_figure.name == sweep)
    plate = paper_figure.draw(mine)
    assert is_drawn(plate.figure)
    assert plate.table.rows


def test_every_exhibit_has_a_sweep_and_every_sweep_an_exhibit():
    assert len(PAPER_FIGURES) == 38
    assert sorted(paper_figure.name for paper_figure in PAPER_FIGURES) == sorted(set(SWEPT) - {"search"})


def test_a_setting_given_by_hand_replaces_the_grids():
    jobs = read_jobs(expand(["sweeps=alpha", "pan=add", "fl_scene.alpha=3"]))
    assert jobs is not None
    (only,) = jobs.jobs
    assert (only.experiment.pan.mode, only.experiment.fl_scene.alpha, only.experiment.fl_scene.H) == ("add", 3, 200)


def test_a_sweep_lists_the_runs_it_covers(command):
    """More seeds join the list; a grid of the command line alone is not listed."""
    words = ("sweeps=alpha", *SMOKE, "fl_scene.alpha=10,1")
    for seed in (0, 1):
        assert command(*words, f"seed={seed}").code == 0
    (file,) = Path("runs/.sweeps").iterdir()
    assert file.name == "alpha-smoke.json"
    listing = read_json(file)
    assert {job["run"] for job in listing["jobs"]} == runs(Path()).keys()
    assert listing["swept"] == ["pan", "fl_scene.alpha", "seed"]
    lost = listing["jobs"][0]["run"]
    shutil.rmtree(Path("runs") / lost)
    statuses = {entry.name: entry.status for entry in entries([Path("runs")], sweep="alpha")}
    assert statuses == {job["run"]: "missing" if job["run"] == lost else "done" for job in listing["jobs"]}
    with pytest.raises(ConfigError, match=r"--sweep must be a sweep that was started here \(alpha\), got K"):
        entries([Path("runs")], sweep="K")
    assert command("-m", *SMOKE, "seed=2,3").code == 0
    assert [file] == list(Path("runs/.sweeps").iterdir())


def test_a_failing_job_stops_neither_its_grid_nor_the_next(command):
    """A learning rate that blows up on two of three amplitudes; the exit code tells."""
    swept = command("sweeps=A", *SMOKE, "training.lr=1e12", "training.warmup=none", "fl_scene.E=3")
    assert swept.code == 1
    assert "diverged in round" in swept.err
    assert {status(path) for path in runs(Path()).values()} == {"diverged"}
    assert len(runs(Path())) == 12


def test_one_job_of_a_sweep_can_be_done_alone(command):
    """As the ledger's --retry has it."""
    assert command("hydra.mode=RUN", "sweeps=T", *SMOKE, "pan=mul", "pan.T=4").code == 0
    (only,) = runs(Path()).values()
    assert "mul0.1" in only.name


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("grids: []", "must be a list of settings and their values, got []"),
        ("grids: {pan: off}", "must be a list of settings and their values, got {'pan': False}"),
        ("grids: [{pan.A: }]", "pan.A in {} must have values, got none"),
    ],
)
def test_a_sweep_file_with_an_empty_grid(tmp_path, monkeypatch, command, content, message):
    file = tmp_path / "mine.yaml"
    file.write_text(f"# Mine\n{content}\n")
    for module in (grids, compose):
        monkeypatch.setattr(module, "SWEEPS", tmp_path)
    ended = command("sweeps=mine", *SMOKE)
    assert ended.code == 1
    assert ended.err.startswith("fedpan_exp: ")
    assert message.replace("{}", str(file)) in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_grid_over_all_options_of_a_group():
    jobs = read_jobs([["-m", *SMOKE, "algorithm=glob(fed*)"]])
    assert jobs is not None
    assert [job.experiment.algorithm.name for job in jobs.jobs] == ["fedavg", "fedopt", "fedprox"]


@pytest.mark.parametrize("words", [("sweeps=alpha,K",), ("sweeps=alpha", "scale=laptop,smoke")])
def test_two_sweeps_in_one_command_are_refused(command, words):
    ended = command("-m", *words, "plan=true")
    assert ended.code == 1
    assert ended.err.endswith(f"must be one of them at a time with sweeps=..., got {words[-1].partition('=')[2]}\n")


def test_a_grid_without_values(command):
    ended = command("-m", *SMOKE, "seed=range(0,0)")
    assert (ended.code, ended.err) == (1, "fedpan_exp: seed must have values, got none in seed=range(0,0)\n")
    assert not Path("runs").exists()


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
    assert workers <= set(both)


@pytest.mark.slow
def test_jobs_side_by_side_or_sent_away_give_the_same_numbers(tmp_path):
    """joblib, and submitit as on a cluster, with this machine as its only node."""
    words = [sys.executable, "-m", "fedpan_exp", "-m", *SMOKE, "algorithm=fedavg,scaffold", "seed=0,1"]
    weights = {}
    for launcher in ("basic", "cores", "submitit_local"):
        (tmp_path / launcher).mkdir()
        done = subprocess.run(
            [*words, f"hydra/launcher={launcher}"], cwd=tmp_path / launcher, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        assert "sweep  4 done, in runs" in done.stdout
        found = runs(tmp_path / launcher)
        weights[launcher] = {name: (path / "weights.safetensors").read_bytes() for name, path in found.items()}
    assert len(weights["basic"]) == 4
    assert weights["basic"] == weights["cores"] == weights["submitit_local"]


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


@pytest.mark.parametrize("file", sorted((SWEEPS / "wandb").glob("*.yaml")), ids=lambda file: file.stem)
def test_wandb_sweeps_name_settings_and_metrics_that_exist(file):
    content = yaml.safe_load(file.read_text())
    ranges = content["parameters"].items()
    for which in (0, -1):
        words = [f"{name}={[*options.get('values', ()), options.get('max')][which]}" for name, options in ranges]
        experiment(*(word for word in words if not word.endswith("=None")))
    assert content["metric"]["name"] == "summary/last5_acc"
    assert content["command"][-1] == "${args_no_hyphens}"


def status(folder: Path) -> str:
    return read_json(folder / "status.json").get("status", "not begun")
