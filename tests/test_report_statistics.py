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
from fedpan_exp.report.comparison import paired_table, target_table
from fedpan_exp.report.frame import VALUE, load
from fedpan_exp.report.statistics import best_pan, cost_to_target, interval, pair_gains, seed_stats
from fedpan_exp.studies.shuffle_test.figure import draw as draw_shuffle_test


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
    trials = 800
    intervals = [interval(generator.normal(0.7, 1.0, n)) for _ in range(trials)]
    covered = np.mean([low <= 0.7 <= high for low, high, _ in intervals])
    level = 1 - 2 ** (1 - n) if n < 6 else 0.95
    assert {stated for _, _, stated in intervals} == {level}
    assert abs(covered - level) < 3 * np.sqrt(level * (1 - level) / trials) + 0.01


def test_intervals_of_few_pairs():
    assert interval([0.1]) is None
    assert interval([0.1, 0.2]) is None
    assert interval([0.1, 0.2, 0.3]) == (0.1, 0.3, 0.75)
    assert interval([0.1] * 6)[2] == 0.95


def test_pairs_count_a_run_that_diverged_before_its_first_test_as_left_out(tmp_path):
    for pan, seed in product((("off", 0.0), ("mul", 0.1)), range(3)):
        make_run(tmp_path, pan=pan, seed=seed)
    (make_run(tmp_path, "diverged", pan=("mul", 0.1), seed=3) / "summary.json").unlink()
    (row,) = paired_table(load(tmp_path)).to_dict("records")
    assert row["on (%)"].remark == "1 left out"
    assert row["pairs"] == 3


def test_a_tie_is_half_a_win(tmp_path):
    for seed, (off, on) in enumerate(((0.5, 0.75), (0.75, 0.5), (0.5, 0.5), (0.5, 1.0))):
        for pan, accuracy in ((("off", 0.0), off), (("mul", 0.1), on)):
            folder = make_run(tmp_path, pan=pan, seed=seed)
            (folder / "summary.json").write_text(json.dumps({"summary/last5_acc": accuracy}))
    (row,) = paired_table(load(tmp_path)).to_dict("records")
    assert (row["win rate"], row["pairs"]) == (f"{0.625:.0%}", 4)  # two wins and half a tie of four


def test_one_seed_has_no_deviation_and_mixed_settings_have_no_mean(tmp_path):
    make_run(tmp_path, seed=0)
    one = load(tmp_path)
    cell = seed_stats(one)
    assert cell.n == 1
    assert np.isnan(cell.deviation)
    assert cell.mean == pytest.approx(100 * one[VALUE].item())
    make_run(tmp_path, seed=1, fl_scene__H=16)
    mixed = seed_stats(load(tmp_path))
    assert mixed.remark == "runs differ in fl_scene.H"
    assert np.isnan(mixed.mean)


def test_incomplete_runs_are_counted_and_left_out(tmp_path):
    complete = make_run(tmp_path, seed=0)
    cut = make_run(tmp_path, seed=1)
    with (cut / "metrics.jsonl").open("a") as file:
        file.write('{"round": 9, "global/te')
    damaged = make_run(tmp_path, seed=2)
    lines = (damaged / "metrics.jsonl").read_text().splitlines()
    (damaged / "metrics.jsonl").write_text("\n".join([*lines[:3], "garbage", *lines[4:]]) + "\n")
    short = make_run(tmp_path, seed=3)
    (short / "metrics.jsonl").write_text("\n".join(lines[:3]) + "\n")
    running = make_run(tmp_path, status="interrupted", seed=4)
    runs = load(tmp_path)
    assert [runs.loc[folder.name, "problem"] for folder in (complete, cut, damaged, short, running)] == [
        "",
        "metrics.jsonl ends in the middle of a line",
        "line 4 of metrics.jsonl is damaged; summary.json counts 8 rounds, metrics.jsonl has 7",
        "summary.json counts 8 rounds, metrics.jsonl has 3",
        "interrupted",
    ]
    cell = seed_stats(runs)
    assert (cell.mean, cell.n) == (pytest.approx(100 * runs.loc[complete.name, VALUE]), 1)
    assert cell.remark == "4 left out"


def test_a_run_in_two_folders_counts_once_and_a_complete_copy_wins(tmp_path):
    copy = make_run(tmp_path / "here", seed=0, status="interrupted", rounds=3)
    complete = make_run(tmp_path / "there", seed=0)
    assert copy.name == complete.name
    for folders in (("here", "there"), ("there", "here")):
        runs = load(*(tmp_path / name for name in folders))
        assert runs["folder"].to_dict() == {complete.name: complete}


def test_pairs_differ_only_in_the_pan(tmp_path):
    off = [make_run(tmp_path, pan=("off", 0.0), seed=seed) for seed in (0, 1)]
    on = [
        make_run(tmp_path, pan=("mul", 0.1), seed=seed, fl_scene__alpha=alpha) for seed, alpha in ((0, 0.1), (1, 1.0))
    ]
    runs = load(tmp_path)
    difference = runs.loc[on[0].name, VALUE] - runs.loc[off[0].name, VALUE]
    assert pair_gains(runs).dropna().to_dict() == {on[0].name: difference}


def test_the_best_pan_is_selected_over_the_seeds_that_all_share(tmp_path):
    def run(pan, seed, accuracy):
        folder = make_run(tmp_path, pan=pan, seed=seed)
        (folder / "summary.json").write_text(json.dumps({"summary/last5_acc": accuracy}))

    add, mul, off = ("add", 0.05), ("mul", 0.1), ("off", 0.0)
    for pan, accuracies in ((off, (0.5, 0.6)), (add, (0.7, 0.6)), (mul, (0.6, 0.75))):
        for seed, accuracy in enumerate(accuracies):
            run(pan, seed, accuracy)
    run(add, 2, 0.99)  # a lucky seed that the others do not have
    runs = load(tmp_path)
    best = best_pan(runs)
    assert best.pan == "PAN∘ 0.1"
    assert best.on.mean == pytest.approx(67.5)
    assert best.off.mean == pytest.approx(55)
    assert list(best.gains) == pytest.approx([0.1, 0.15])
    assert (best.on.remark, best.off.remark) == ("", "")
    alone = best_pan(runs[runs["pan"] != "PAN∘ 0.1"])
    assert (alone.pan, alone.on.n, alone.on.remark) == ("PAN+ 0.05", 2, "1 left out")


def test_the_cost_of_a_target_is_summed_over_rounds(tmp_path):
    folder = make_run(tmp_path, seed=0)
    record = pandas.read_json(folder / "metrics.jsonl", lines=True)
    target = record["global/test_acc"].iloc[4] - 1e-9  # pandas rounds
    first = int((record["global/test_acc"] >= target).idxmax())
    cost = cost_to_target(folder, target)
    assert cost["rounds"] == record["round"].iloc[first]
    assert 1e6 * cost["MB sent"] == record[["comm/up_bytes", "comm/down_bytes"]].iloc[: first + 1].sum().sum()
    assert cost["seconds"] == pytest.approx(record["time/round_s"].iloc[: first + 1].sum())
    assert cost_to_target(folder, 1.0) is None


def test_the_table_of_runs_has_settings_and_numbers(tmp_path):
    """What a notebook starts from, as in the README."""
    for pan, seed in product((("off", 0.0), ("mul", 0.1)), (0, 1)):
        make_run(tmp_path, pan=pan, seed=seed)
    runs = load(str(tmp_path))
    independent = tidy(tmp_path).groupby("pan")["accuracy"].mean()
    ours = 100 * runs.groupby("pan")["summary/last5_acc"].mean()
    assert ours["off"] == pytest.approx(independent["off"])
    assert ours["PAN∘ 0.1"] == pytest.approx(independent["mul"])
    off = runs[runs["pans"] == "off"]
    assert set(off["pan.A"]) == {0}
    assert off["pan.T"].isna().all()
    assert set(runs["fl_scene.alpha"]) == {0.1}
    (tmp_path / "empty").mkdir()
    assert load(tmp_path / "empty").empty


@pytest.mark.parametrize(
    ("name", "theirs", "ours"),
    [
        ("fl_scene.E", 5, 5.0),  # was a whole number in earlier versions
        ("pan.per_client", None, "shared"),  # which had no such setting
        ("fl_scene.shards", 2, 3),  # is not used by this partition
        ("fork", "/mnt/a/runs/parent@3", "runs/parent@3"),
        ("plugins", ["/mnt/a/mine.py@1234"], ["mine.py@1234"]),
    ],
)
def test_runs_that_are_the_same_but_for_what_has_no_effect_are_paired(name, theirs, ours, tmp_path):
    """As it is for their ids."""
    written = {"off": theirs, "mul": ours}
    for pan, seed in product((("off", 0.0), ("mul", 0.1)), (0, 1)):
        folder = make_run(tmp_path, pan=pan, seed=seed)
        settings = yaml.safe_load((folder / "config.yaml").read_text())
        *group, key = name.split(".")
        section = settings[group[0]] if group else settings
        section[key] = theirs if seed else written[pan[0]]
        if section[key] is None:
            del section[key]
        (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    runs = load(tmp_path)
    assert pair_gains(runs).notna().sum() == 2
    assert seed_stats(runs[runs["pans"] == "on"]).mean > 0  # not missing, as that of mixed settings


def test_a_seed_that_diverged_counts_as_one_that_missed_the_target(tmp_path):
    make_run(tmp_path, seed=0)
    diverged = make_run(tmp_path, seed=1, status="diverged", rounds=1)
    (diverged / "metrics.jsonl").write_text('{"round": 1, "global/test_acc": 0.1}\n')
    make_run(tmp_path, seed=2, status="interrupted", rounds=1)  # it may get there yet
    runs = load(tmp_path)
    (first,) = runs[runs["seed"] == 0]["folder"]
    target = pandas.read_json(first / "metrics.jsonl", lines=True)["global/test_acc"].max() - 1e-9
    (row,) = target_table(runs, target).to_dict("records")
    assert row[f"reached {target:.0%}"] == "1 of 2"


def test_the_figure_of_shuffled_networks_shows_means_over_seeds(tmp_path):
    folders = [make_run(tmp_path, study="shuffle_test", pan=("mul", 0.1), seed=seed) for seed in (0, 1)]
    lines = (folders[1] / "metrics.jsonl").read_text()
    (folders[1] / "metrics.jsonl").write_text(lines.replace('"test_acc": 0.9', '"test_acc": 0.8'))
    accuracies = pandas.concat([pandas.read_json(folder / "metrics.jsonl", lines=True) for folder in folders])
    expected = 100 * accuracies.groupby("P_sf")["test_acc"].mean()
    runs = load(tmp_path)
    table = draw_shuffle_test(runs).table
    assert [cell.mean for cell in table["shuffled (%)"]] == pytest.approx(expected.tolist())
    alone = draw_shuffle_test(runs.loc[[folders[0].name]]).table
    record = pandas.read_json(folders[0] / "metrics.jsonl", lines=True)
    assert [cell.deviation for cell in alone["shuffled (%)"]] == pytest.approx((100 * record["deviation"]).tolist())
