"""Misalignment: the mathematics, and the command that writes a table and a picture from run folders."""

from math import inf, isnan

import numpy as np
import pytest
import yaml
from omegaconf import OmegaConf

from conftest import experiment
from fedpan_exp import misalignment
from fedpan_exp.alignment.misalignment import misplaced_ratio, read
from fedpan_exp.system.atomic_io import write_json
from fedpan_exp.system.rng import rng


def misplaced(N_sf, P_sf=0.1):
    return misplaced_ratio(N_sf, P_sf, 1024, 100, 20, rng(0, misalignment.RNG_NAME))


def test_misplaced_fractions_match_the_paper():
    assert misplaced(0.0) == 0
    assert misplaced(1.0) == pytest.approx(0.16, abs=0.01)  # "keeps approximately 84%"
    assert misplaced(0.2) == pytest.approx(0.038, abs=0.004)  # "approximately 3.8%"
    assert misplaced(1.0, P_sf=0.0) == 0


def reading(fractions, means, accuracy):
    return read(fractions, np.array(means)[:, None], np.array([accuracy]), np.random.default_rng(0))


def test_a_reading_is_where_the_curve_crosses_the_accuracy():
    fractions, means = [0.0, 0.02, 0.10], [0.90, 0.80, 0.60]
    assert reading(fractions, means, 0.85).ratio == pytest.approx(0.01)
    assert reading(fractions, means, 0.70).ratio == pytest.approx(0.06)
    assert reading(fractions, means, 0.90).ratio == 0
    assert reading(fractions, means, 0.91).ratio == -inf
    assert reading(fractions, means, 0.59).ratio == inf
    assert isnan(reading(fractions, means, 0.85).low)


def test_a_curve_is_made_monotonic():
    """The second and third point rise: they are pooled to (0.03, 0.7), and 0.8 is halfway to it."""
    assert reading([0.0, 0.02, 0.04, 0.1], [0.9, 0.65, 0.75, 0.5], 0.8).ratio == pytest.approx(0.015)


def test_the_interval_covers_the_noise_of_seeds():
    """Accuracy falls by 1 point per percent misplaced; the noise of 1 point per run gives +-1.96 sqrt(2/n) percent."""
    rng, seeds = np.random.default_rng(0), 400
    fractions = [0.0, 0.05, 0.10]
    curve = np.array([[0.9], [0.85], [0.80]]) + 0.01 * rng.standard_normal((3, seeds))
    result = read(fractions, curve, 0.85 + 0.01 * rng.standard_normal(seeds), rng)
    assert result.low < result.ratio < result.high
    assert result.ratio == pytest.approx(0.05, abs=0.003)
    assert result.high - result.low == pytest.approx(2 * 1.96 * 0.01 * np.sqrt(2 / seeds), rel=0.25)


def test_noise_common_to_a_seed_cancels():
    noise = np.array([-0.05, 0.0, 0.05])
    curve = np.array([[0.9], [0.8]]) + noise
    result = read([0.0, 0.1], curve, 0.85 + noise, np.random.default_rng(0))
    assert result == pytest.approx((0.05, 0.05, 0.05))


@pytest.fixture
def runs(tmp_path):
    def add(accuracy, *overrides, status="done", irrelevant=()):
        folder = tmp_path / "runs" / f"run-{len(list(tmp_path.glob('runs/*')))}"
        folder.mkdir(parents=True)
        settings = OmegaConf.to_container(OmegaConf.structured(experiment("pan=off", *overrides)))
        (folder / "config.yaml").write_text(yaml.safe_dump(settings))
        write_json(folder / "summary.json", {"summary/last5_acc": accuracy})
        write_json(folder / "status.json", {"status": status, "irrelevant": irrelevant})

    add.folder = tmp_path / "runs"
    add.folder.mkdir()
    return add


def test_the_command_writes_a_table_and_a_picture(runs, call_main):
    for seed in (0, 1):
        runs(0.90 + 0.01 * seed, "fl_scene.alpha=10", f"seed={seed}")
        for N_sf, accuracy in ((0.2, 0.80), (1.0, 0.60)):
            overrides = ("study=shuffle_federate", f"study.N_sf={N_sf}", "fl_scene.alpha=10", f"seed={seed}")
            runs(accuracy + 0.01 * seed, *overrides)
        runs(0.85 + 0.01 * seed, "fl_scene.alpha=1", f"seed={seed}")
        runs(0.30, "fl_scene.alpha=0.1", f"seed={seed}")
        runs(0.10, "fl_scene.alpha=1", f"seed={seed}", "fl_scene.E=1")  # another setting, so not on this scale
    runs(0.99, "fl_scene.alpha=0.5", "seed=0")
    runs(0.01, "fl_scene.alpha=0.5", "seed=1", status="diverged")
    runs(0.02, "study=centralize", "fl_scene.alpha=0.5", "seed=1", irrelevant=("algorithm", "fl_scene"))
    code, out, err = call_main(misalignment.main, runs.folder)
    assert (code, err) == (0, "")
    cells = [line.split("\t")[1:] for line in out.splitlines() if line.startswith("mnist mlp fedavg, PANs off")]
    half = f"{misplaced(0.2) / 2:.1%}"  # halfway between no and 0.2 shuffles, whatever the seed
    most = f"above {misplaced(1.0):.1%}"
    assert cells == [
        ["1", "85.50%", half, f"{half} to {half}", "2"],
        ["0.5", "99.00%", "none: no worse than i.i.d.", "one seed: no interval", "1"],
        ["0.1", "30.00%", f"{most}, out of range", f"{most} to {most}", "2"],
    ]
    assert (runs.folder / "misalignment.png").stat().st_size > 10_000


def test_runs_that_cannot_be_read_give_one_line(runs, call_main):
    assert call_main(misalignment.main, runs.folder)[2].startswith("fedpan_exp: no curve in these runs")
    runs(0.9, "fl_scene.alpha=1")
    code, _, err = call_main(misalignment.main, runs.folder)
    assert code == 1
    assert err.strip() == (
        "fedpan_exp: no curve in these runs; run study=shuffle_federate with two values of N_sf, or with one and also "
        "study=federate with the same settings"
    )
    runs(0.9, "study=shuffle_federate", "fl_scene.alpha=10", "study.N_sf=0.1", "seed=5")
    runs(0.8, "study=shuffle_federate", "fl_scene.alpha=10", "study.N_sf=0.2", "seed=5")
    code, out, _ = call_main(misalignment.main, runs.folder)
    assert code == 0
    assert "no seed in common with the curve" in out
    runs(0.91, "fl_scene.alpha=0.5", "seed=5")
    assert f"below {misplaced(0.1):.1%}, out of range" in call_main(misalignment.main, runs.folder)[1]
    code, _, err = call_main(misalignment.main, runs.folder / "nowhere")
    assert (code, err.strip()) == (1, f"fedpan_exp: there is no folder {runs.folder / 'nowhere'}")
