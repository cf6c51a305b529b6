"""The report's statistics of seeds and pairs, checked against pandas and simulation."""

import csv
import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas
import pytest
import yaml
from run_folders import make_listing, make_run

from fedpan_exp.report.build import Report
from fedpan_exp.report.pairing import Paired, bootstrap, paired
from fedpan_exp.report.run_collection import read_run
from fedpan_exp.report.statistics import best_pan, cost_to_target, seed_stats


def tidy(runs: Path) -> pandas.DataFrame:
    """Read from the files independently of the report."""
    rows = []
    for folder in runs.glob("*-*"):
        settings = yaml.safe_load((folder / "config.yaml").read_text())
        record = pandas.read_json(folder / "metrics.jsonl", lines=True)
        rows.append(
            {
                "status": json.loads((folder / "status.json").read_text())["status"],
                "pan": settings["pan"]["mode"],
                "alpha": settings["fl_scene"]["alpha"],
                "seed": settings["seed"],
                "accuracy": 100 * record["global/test_acc"].tail(5).mean(),
            }
        )
    return pandas.DataFrame(rows)


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_the_tables_agree_with_pandas(tmp_path):
    runs = tmp_path / "runs"
    pans, alphas, seeds = (("off", 0.0), ("mul", 0.1)), (10.0, 1.0, 0.1), range(4)
    folders = [
        make_run(runs, pan=pan, fl_scene__alpha=alpha, seed=seed) for pan, alpha, seed in product(pans, alphas, seeds)
    ]
    make_run(runs, pan=("mul", 0.1), fl_scene__alpha=1.0, seed=9)  # no partner
    make_run(runs, status="failed", rounds=2, pan=("off", 0.0), fl_scene__alpha=1.0, seed=9)
    make_listing(runs, "alpha", folders)
    Report([runs], tmp_path / "report").build()

    data = tidy(runs).query("status == 'done'")
    table = read_csv(tmp_path / "report" / "tables" / "alpha-smoke.csv")
    assert len(table) == 3
    listed = data.query("seed < 9").groupby(["pan", "alpha"])["accuracy"]
    for row in table:
        alpha = float(row["setting"].removeprefix("alpha="))
        for mode, column in (("off", "PANs off (%)"), ("mul", "PANs on (%)")):
            assert float(row[column]) == pytest.approx(listed.mean()[mode, alpha])
            assert float(row[f"{column} deviation"]) == pytest.approx(listed.std()[mode, alpha])
            assert int(row[f"{column} n"]) == listed.count()[mode, alpha] == 4

    wide = data.pivot(index=["alpha", "seed"], columns="pan", values="accuracy").dropna()
    differences = (wide["mul"] - wide["off"]).groupby("alpha")
    pairs = {row["setting"]: row for row in read_csv(tmp_path / "report" / "tables" / "paired.csv")}
    for alpha in alphas:
        row = pairs[f"alpha={alpha:g}"]
        assert float(row["on - off (points)"]) == pytest.approx(differences.mean()[alpha])
        assert float(row["on - off (points) deviation"]) == pytest.approx(differences.std()[alpha])
        assert int(row["pairs"]) == differences.count()[alpha] == 4
        assert row["win rate"] == f"{(differences.get_group(alpha) > 0).mean():.0%}"
    assert int(pairs["all 3 settings, one mean per setting"]["pairs"]) == 3


@pytest.mark.parametrize("n", [3, 4, 5, 6, 10, 30])
def test_the_interval_has_its_stated_coverage(n):
    """Normal differences with a known mean; three pairs give 75%, six and more 95%."""
    generator = np.random.default_rng(n)
    level = Paired((0.0,) * n).level
    trials = 800
    intervals = [bootstrap(generator.normal(0.7, 1.0, n)) for _ in range(trials)]
    covered = np.mean([low <= 0.7 <= high for low, high in intervals])
    assert abs(covered - level) < 3 * np.sqrt(level * (1 - level) / trials) + 0.01


def test_intervals_of_few_pairs():
    assert Paired((0.1,)).interval is None
    assert Paired((0.1, 0.2)).interval is None
    assert Paired((0.1, 0.2, 0.3)).level == 0.75
    assert Paired((0.1, 0.2, 0.3)).interval == (0.1, 0.3)
    assert Paired((0.1,) * 6).level == 0.95
    assert Paired((1.0, -1.0, 0.0, 1.0)).wins == 0.625  # two wins and half a tie of four


def test_one_seed_has_no_deviation_and_mixed_settings_have_no_mean(tmp_path):
    one = read_run(make_run(tmp_path, seed=0))
    cell = seed_stats([one])
    assert (cell.n, cell.deviation) == (1, None)
    assert cell.mean == one.number()
    longer = read_run(make_run(tmp_path, seed=1, fl_scene__H=16))
    mixed = seed_stats([one, longer])
    assert mixed.mixed == ("fl_scene.H",)
    assert mixed.mean is None


def test_incomplete_runs_are_counted_and_left_out(tmp_path):
    complete = read_run(make_run(tmp_path, seed=0))
    cut = make_run(tmp_path, seed=1)
    with (cut / "metrics.jsonl").open("a") as file:
        file.write('{"round": 9, "global/te')
    damaged = make_run(tmp_path, seed=2)
    lines = (damaged / "metrics.jsonl").read_text().splitlines()
    (damaged / "metrics.jsonl").write_text("\n".join([*lines[:3], "garbage", *lines[4:]]) + "\n")
    short = make_run(tmp_path, seed=3)
    (short / "metrics.jsonl").write_text("\n".join(lines[:3]) + "\n")
    others = [read_run(folder) for folder in (cut, damaged, short, make_run(tmp_path, status="running", seed=4))]
    assert [run.defects[:1] for run in others] == [
        ("metrics.jsonl ends in the middle of a line",),
        ("line 4 of metrics.jsonl is damaged",),
        ("summary.json counts 8 rounds, metrics.jsonl has 3",),
        (),
    ]
    cell = seed_stats([complete, *others])
    assert cell.values == (complete.number(),)
    assert cell.left_out == 4


def test_pairs_differ_only_in_the_pan(tmp_path):
    off = [read_run(make_run(tmp_path, pan=("off", 0.0), seed=seed)) for seed in (0, 1)]
    on = [
        read_run(make_run(tmp_path, pan=("mul", 0.1), seed=seed, fl_scene__alpha=alpha))
        for seed, alpha in ((0, 0.1), (1, 1.0))
    ]
    result = paired([*off, *on])
    assert result.differences == (on[0].number() - off[0].number(),)


def test_the_best_pan_is_selected_over_the_seeds_that_all_share(tmp_path):
    def run(pan, seed, accuracy):
        folder = make_run(tmp_path, pan=pan, seed=seed)
        (folder / "summary.json").write_text(json.dumps({"summary/last5_acc": accuracy}))
        return read_run(folder)

    add, mul, off = ("add", 0.05), ("mul", 0.1), ("off", 0.0)
    runs = [run(off, 0, 0.5), run(off, 1, 0.6), run(add, 0, 0.7), run(add, 1, 0.6), run(mul, 0, 0.6), run(mul, 1, 0.75)]
    runs += [run(add, 2, 0.99)]  # a lucky seed that the others do not have
    best = best_pan(runs)
    assert best.pan == "PAN∘ 0.1"
    assert best.on.mean == pytest.approx(0.675)
    assert best.off.mean == pytest.approx(0.55)
    assert best.gain.differences == pytest.approx((0.1, 0.15))
    assert (best.on.left_out, best.off.left_out) == (0, 0)
    alone = best_pan([run for run in runs if run.pan != "PAN∘ 0.1"])
    assert (alone.pan, alone.on.n, alone.on.left_out) == ("PAN+ 0.05", 2, 1)


def test_the_cost_of_a_target_is_summed_over_rounds(tmp_path):
    folder = make_run(tmp_path, seed=0)
    record = pandas.read_json(folder / "metrics.jsonl", lines=True)
    target = record["global/test_acc"].iloc[4] - 1e-9  # pandas rounds
    first = int((record["global/test_acc"] >= target).idxmax())
    cost = cost_to_target(read_run(folder), target)
    assert cost.rounds == record["round"].iloc[first]
    assert cost.bytes == record[["comm/up_bytes", "comm/down_bytes"]].iloc[: first + 1].sum().sum()
    assert cost.seconds == pytest.approx(record["time/round_s"].iloc[: first + 1].sum())
    assert cost_to_target(read_run(folder), 1.0) is None
