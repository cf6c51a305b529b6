"""The files in sweeps/: each composes at every scale, runs at the smallest, and is drawn."""

import os
from pathlib import Path

import pytest
import yaml
from processes import wait_for
from run_folders import is_drawn
from sweep_runs import SMOKE, status

from conftest import experiment
from fedpan_exp.config import compose
from fedpan_exp.config.sweep_file import GRID_KEYS
from fedpan_exp.report.collect import paper_figures
from fedpan_exp.report.frame import load
from fedpan_exp.report.sweeps import read_sweeps
from fedpan_exp.sweeping.grids import Grids
from fedpan_exp.sweeping.jobs import read_jobs
from fedpan_exp.sweeping.stand_ins import NARROW
from fedpan_exp.system.atomic_io import read_json
from fedpan_exp.system.paths import SWEEPS

SWEPT = sorted(path.stem for path in SWEEPS.glob("*.yaml"))


def end(override: str, which: int) -> str:
    """Reduce a swept override to its first or last value."""
    name, _, values = override.partition("=")
    return override if values.startswith("[") else f"{name}={values.split(',')[which]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "which"),
    [("laptop", -1), ("paper", 0), ("smoke", -1)],
)
@pytest.mark.parametrize("sweep", SWEPT)
def test_every_sweep_composes(sweep, scale, which):
    """One job of each grid; the others are composed when the sweep runs."""
    content = yaml.safe_load((SWEEPS / f"{sweep}.yaml").read_text())
    grids = Grids(**{key: content.get(key) for key in GRID_KEYS})
    alone = [] if sweep == "search" else ["hydra.sweeper.file=null"]
    for overrides in grids.expand(scale, {}):
        job = [end(override, which) for override in overrides]
        if sweep == "search":  # has no jobs before it starts
            assert experiment(f"sweeps={sweep}", f"scale={scale}", *job).scale == scale
            continue
        (job,) = read_jobs(f"sweeps={sweep}", f"scale={scale}", *alone, *job)
        assert job.experiment.scale == scale
        assert job.experiment.fl_scene.H == 2 or scale != "smoke"


@pytest.mark.parametrize("sweep", SWEPT)
def test_every_sweep_has_a_description(sweep):
    text = (SWEEPS / f"{sweep}.yaml").read_text()
    assert f"#   python -m fedpan_exp sweeps={sweep}" in text
    assert "# Paper" in text


def test_a_laptop_keeps_the_kind_of_network_and_what_a_sweep_varies():
    def at_laptop(grid: dict, **of_file: dict) -> set[str]:
        ((*overrides,),) = Grids([grid], scales={"laptop": of_file} if of_file else None).expand("laptop", {})
        return set(overrides)

    narrow = {"dataset=cifar10", "model=vgg9", *(f"{key}={value}" for key, value in NARROW.items())}
    varied = at_laptop({"dataset": "cinic10", "fl_scene.alpha": "10,1"})
    assert narrow | {"fl_scene.alpha=10,1", "fl_scene.K=20", "fl_scene.H=40"} <= varied
    own_scene = at_laptop({"dataset": "cifar10", "model": "resnet20", "fl_scene": "cross_silo"}, study_E=5)
    assert own_scene == narrow - {"model=vgg9"} | {"model=resnet20", "fl_scene=cross_silo", "study_E=5"}
    assert at_laptop({"dataset": "femnist"}) == {"dataset=mnist", "model=mlp"}
    assert at_laptop({"dataset": "svhn", "model": "vgg13"}, dataset="svhn") == {"dataset=svhn", "model=vgg13"}
    assert at_laptop({"pan": "off"}) == {"pan=off"}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("dataset=mnist model=mlp", {("mnist", "mlp")}),
        ("dataset=mnist", {("mnist", "mlp")}),
        ("dataset=cifar10", {("cifar10", "mlp"), ("cifar10", "vgg9")}),
        ("dataset=mnist,cifar10 model=mlp", {("mnist", "mlp"), ("cifar10", "mlp")}),
        ("model=mlp", {("mnist", "mlp"), ("cifar10", "mlp")}),
    ],
)
def test_what_stands_in_at_a_laptop_follows_what_is_typed(typed, expected):
    """sweeps=ot has MNIST with an MLP and CIFAR-10 with VGG9, which a laptop narrows."""
    jobs = read_jobs("sweeps=ot", "scale=laptop", *typed.split())
    assert {(job.experiment.dataset.name, job.experiment.model.name) for job in jobs} == expected


FEWER = {  # sweep, or the start of its name -> settings that make it smaller
    "compare_noniid": ("algorithm=fedavg,scaffold", "pan=off,mul"),
    "compare_alpha": ("algorithm=fedavg,scaffold", "pan=off,mul"),
    "compare_scenes": ("fl_scene.K=10,20", "fl_scene.E=1,2"),
    "K": ("fl_scene.K=10,20",),
    "E": ("fl_scene.E=1,2",),
    "absorb": ("model.width=32",),  # their probes match networks
    "controls": ("model.width=32",),
}


@pytest.mark.slow
@pytest.mark.parametrize("sweep", [sweep for sweep in SWEPT if sweep != "search"])
def test_every_sweep_runs_at_the_smallest_scale_and_is_drawn(command, tmp_path_factory, sweep):
    """All sweeps use one folder, as a user would, so shared runs are run once. Two of five algorithms are enough."""
    base = tmp_path_factory.getbasetemp()  # one per worker; without workers its parent is shared by all sessions
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "smoke"
    fewer = next((overrides for prefix, overrides in FEWER.items() if sweep.startswith(prefix)), ())
    # Here a sweep must run and be drawn, not learn.
    little_work = ("fl_scene.B=64", "dataset.samples=600", "fl_scene.min_samples=2")
    swept = command(f"sweeps={sweep}", "scale=smoke", f"runs={shared}", *little_work, *fewer)
    assert swept.code == 0, swept.err
    folders = {shared / job["run"] for job in read_json(shared / ".sweeps" / f"{sweep}-smoke.json")["jobs"]}
    wait_for(lambda: {status(folder) for folder in folders} == {"done"}, every=0.5)  # another sweep may still run some
    sweeps, _ = read_sweeps([shared], load(shared))
    (this_sweep,) = (one for one in sweeps if one.name == sweep)
    (paper_figure,) = (paper_figure for paper_figure in paper_figures() if paper_figure.name == sweep)
    result = paper_figure.draw(this_sweep)
    assert is_drawn(result.figure)
    assert len(result.table)


def test_a_vgg_learns_at_the_smallest_scale(command):
    """Narrow, with He's initialisation: near chance, PANs off and on would agree to every digit."""
    swept = command("sweeps=wdiv_cifar_5", "scale=smoke", "fl_scene.alpha=1")
    assert swept.code == 0, swept.err
    off, on = (read_json(path / "summary.json")["summary/best_acc"] for path in swept.runs)
    assert min(off, on) > 0.3
    assert off != on


def test_every_paper_figure_has_a_sweep_and_every_sweep_a_figure():
    assert len(paper_figures()) == 40
    assert sorted(paper_figure.name for paper_figure in paper_figures()) == sorted(set(SWEPT) - {"search"})


def test_a_setting_on_the_command_line_replaces_the_grid():
    (only,) = read_jobs("sweeps=alpha", "pan=add", "fl_scene.alpha=3")
    assert (only.experiment.pan.mode, only.experiment.fl_scene.alpha, only.experiment.fl_scene.H) == ("add", 3, 200)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("grids: []", "grids in sweeps/mine.yaml must be a list of settings and their values, got []"),
        (
            "grids: {pan: off}",
            "grids in sweeps/mine.yaml must be a list of settings and their values, got {'pan': False}",
        ),
        ("grids: [{pan.A: }]", "pan.A in sweeps/mine.yaml must have values, got none"),
        ("grids: [{pan: mul}]\nfor_each: 3", "for_each in sweeps/mine.yaml must be a list of settings and their values, got 3"),
        ("grids: [{pan: mul}]\nscales: {smok: {seed: 1}}", "a scale in sweeps/mine.yaml must be paper, laptop or smoke, got smok; did you mean smoke?"),
        ("grids: [{pan: mul, scales: 5}]", "scales in sweeps/mine.yaml must be settings and their values, got 5"),
        ("grids: [{pan: mul, scales: }]", "scales in sweeps/mine.yaml must have values, got none"),
        ("grid: [{pan: mul}]", "grid in sweeps/mine.yaml is not a setting; did you mean grids?"),
        ("grids: [{pan: mul}]\nfl_scene: {h: 3}", "fl_scene.h in sweeps/mine.yaml is not a setting; fl_scene has K, R, E, steps, H, alpha, B, partition, file, shards, samples, min_samples, small_clients, local_test, reserve, averaging, bn_statistics and client_memory"),
        ("grids: [{pan.Z: 3}]", "pan.Z is not a setting; pan has mode, A, T, encoding, placement, per_client, own_share, order and n_fix"),
        ("grids: [{seed: '0,1,x'}]", "seed must be a whole number, got x; nothing was started, though 2 other jobs are valid"),
        ("[1, 2]", "mine.yaml must be settings and their values, got [1, 2]"),
        ("a: [", "mine.yaml must be a YAML file, got an error: while parsing a flow node"),
    ],
)  # fmt: skip
def test_an_invalid_sweep_file(tmp_path, monkeypatch, command, content, message):
    folder = tmp_path / "sweeps"
    folder.mkdir()
    (folder / "mine.yaml").write_text(f"# Mine\n{content}\n")
    monkeypatch.setattr(compose, "SWEEPS", folder)
    ended = command("sweeps=mine", *SMOKE)
    assert ended.code == 1
    assert ended.err.startswith("fedpan_exp: ")
    assert ended.err.endswith(f"{message}\n")
    assert len(ended.err.splitlines()) == 1
    assert not Path("runs").exists()


@pytest.mark.parametrize("file", sorted((SWEEPS / "wandb").glob("*.yaml")), ids=lambda file: file.stem)
def test_wandb_sweeps_name_settings_and_metrics_that_exist(file):
    content = yaml.safe_load(file.read_text())
    ranges = content["parameters"].items()
    for which in (0, -1):
        overrides = [f"{name}={[*options.get('values', ()), options.get('max')][which]}" for name, options in ranges]
        experiment(*(override for override in overrides if not override.endswith("=None")))
    assert content["metric"]["name"] == "summary/last5_acc"
    assert content["command"][-1] == "${args_no_hyphens}"
