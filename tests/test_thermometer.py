"""A loss of accuracy read as misplaced neurons: the mathematics, and run folders in, a table and a picture out."""

from math import inf, isnan
from pathlib import Path

import numpy as np
import pytest
import yaml
from omegaconf import OmegaConf

from conftest import experiment
from fedpan_exp import misalignment as thermometer
from fedpan_exp.alignment.misalignment import misplaced_ratio, read
from fedpan_exp.system.atomic_io import write_json
from fedpan_exp.system.rng import rng


def misplaced(N_sf, P_sf=0.1):
    return misplaced_ratio(N_sf, P_sf, 1024, 100, 20, rng(0, "thermometer"))


def test_misplaced_shares_are_the_papers():
    assert misplaced(0.0) == 0
    assert misplaced(1.0) == pytest.approx(0.16, abs=0.01)  # "keeps approximately 84%"
    assert misplaced(0.2) == pytest.approx(0.038, abs=0.004)  # "approximately 3.8%"
    assert misplaced(1.0, P_sf=0.0) == 0


def reading(shares, means, accuracy):
    return read(shares, np.array(means)[:, None], np.array([accuracy]), np.random.default_rng(0))


def test_a_reading_is_where_the_curve_crosses():
    shares, means = [0.0, 0.02, 0.10], [0.90, 0.80, 0.60]
    assert reading(shares, means, 0.85).ratio == pytest.approx(0.01)
    assert reading(shares, means, 0.70).ratio == pytest.approx(0.06)
    assert reading(shares, means, 0.90).ratio == 0
    assert reading(shares, means, 0.91).ratio == -inf
    assert reading(shares, means, 0.59).ratio == inf
    assert isnan(reading(shares, means, 0.85).low)


def test_a_curve_can_only_fall():
    """The second and third point rise: both become (0.03, 0.7), halfway to which lies 0.8."""
    assert reading([0.0, 0.02, 0.04, 0.1], [0.9, 0.65, 0.75, 0.5], 0.8).ratio == pytest.approx(0.015)


def test_the_interval_covers_what_seeds_leave_open():
    """Accuracy falls by 1 point a percent misplaced; each run is off by noise of 1 point: +-1.96 sqrt(2/n) percent."""
    rng, seeds = np.random.default_rng(0), 400
    shares = [0.0, 0.05, 0.10]
    curve = np.array([[0.9], [0.85], [0.80]]) + 0.01 * rng.standard_normal((3, seeds))
    found = read(shares, curve, 0.85 + 0.01 * rng.standard_normal(seeds), rng)
    assert found.low < found.ratio < found.high
    assert found.ratio == pytest.approx(0.05, abs=0.003)
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.01 * np.sqrt(2 / seeds), rel=0.25)


def test_noise_that_a_seed_shares_with_its_curve_cancels():
    noise = np.array([-0.05, 0.0, 0.05])
    curve = np.array([[0.9], [0.8]]) + noise
    found = read([0.0, 0.1], curve, 0.85 + noise, np.random.default_rng(0))
    assert found == pytest.approx((0.05, 0.05, 0.05))


@pytest.fixture
def runs(tmp_path):
    def add(accuracy, *words, status="done"):
        folder = tmp_path / "runs" / f"run-{len(list(tmp_path.glob('runs/*')))}"
        folder.mkdir(parents=True)
        settings = OmegaConf.to_container(OmegaConf.structured(experiment("pan=off", *words)))
        (folder / "config.yaml").write_text(yaml.safe_dump(settings))
        write_json(folder / "summary.json", {"summary/last5_acc": accuracy})
        write_json(folder / "status.json", {"status": status})

    add.folder = tmp_path / "runs"
    add.folder.mkdir()
    return add


def call(monkeypatch, capsys, folder: Path) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["thermometer", str(folder)])
    monkeypatch.setenv("COLUMNS", "300")
    code = 0
    try:
        thermometer.main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_run_folders_become_a_table_and_a_picture(runs, monkeypatch, capsys):
    for seed in (0, 1):
        runs(0.90 + 0.01 * seed, "fl_scene.alpha=10", f"seed={seed}")
        for N_sf, accuracy in ((0.2, 0.80), (1.0, 0.60)):
            words = ("study=shuffle_federate", f"study.N_sf={N_sf}", "fl_scene.alpha=10", f"seed={seed}")
            runs(accuracy + 0.01 * seed, *words)
        runs(0.85 + 0.01 * seed, "fl_scene.alpha=1", f"seed={seed}")
        runs(0.30, "fl_scene.alpha=0.1", f"seed={seed}")
        runs(0.10, "fl_scene.alpha=1", f"seed={seed}", "fl_scene.E=1")  # another setting: not on this scale
    runs(0.99, "fl_scene.alpha=0.5", "seed=0")
    runs(0.01, "fl_scene.alpha=0.5", "seed=1", status="diverged")
    code, out, err = call(monkeypatch, capsys, runs.folder)
    assert (code, err) == (0, "")
    cells = [line.split("\t")[1:] for line in out.splitlines() if line.startswith("mnist mlp fedavg, PANs off")]
    half = f"{misplaced(0.2) / 2:.1%}"  # halfway between no and 0.2 shuffles, whatever the seed
    most = f"above {misplaced(1.0):.1%}"
    assert cells == [
        ["1", "85.50%", half, f"{half} to {half}", "2"],
        ["0.5", "99.00%", "none: no worse than i.i.d.", "one seed: no interval", "1"],
        ["0.1", "30.00%", f"{most}, out of range", f"{most} to {most}", "2"],
    ]
    assert (runs.folder / "thermometer.png").stat().st_size > 10_000


def test_what_cannot_be_read_is_said_in_one_line(runs, monkeypatch, capsys):
    runs(0.9, "fl_scene.alpha=1")
    code, _, err = call(monkeypatch, capsys, runs.folder)
    assert code == 1
    assert err.strip() == (
        "fedpan_exp: no curve: needs runs of study=shuffle_federate with two N_sf, or one and the unshuffled run"
    )
    runs(0.9, "study=shuffle_federate", "fl_scene.alpha=10", "study.N_sf=0.1", "seed=5")
    runs(0.8, "study=shuffle_federate", "fl_scene.alpha=10", "study.N_sf=0.2", "seed=5")
    code, out, _ = call(monkeypatch, capsys, runs.folder)
    assert code == 0
    assert "no seed in common with the curve" in out
    runs(0.91, "fl_scene.alpha=0.5", "seed=5")
    assert f"below {misplaced(0.1):.1%}, out of range" in call(monkeypatch, capsys, runs.folder)[1]
    code, _, err = call(monkeypatch, capsys, runs.folder / "nowhere")
    assert (code, err.strip()) == (1, f"fedpan_exp: there is no folder {runs.folder / 'nowhere'}")
