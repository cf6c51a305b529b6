"""Studies without training: kept_ratio, shuffle_error, doctor."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import torch

from conftest import CommandResult
from fedpan_exp.alignment.kept_ratio import accumulated_permutation, kept_ratio
from fedpan_exp.alignment.shuffle_error import shuffle_error
from fedpan_exp.report.frame import load, load_run
from fedpan_exp.studies.kept_ratio import figure as kept_ratio_figure
from fedpan_exp.studies.shuffle_error import figure as shuffle_error_figure
from fedpan_exp.system.atomic_io import read_json, read_lines
from fedpan_exp.system.rng import rng

Command = Callable[..., CommandResult]


def records(folder: Path) -> list[dict[str, Any]]:
    return read_lines(folder / "metrics.jsonl")


@pytest.mark.parametrize(("N_sf", "paper", "tolerance"), [(1.0, 0.84, 0.02), (0.2, 0.962, 0.005)])
def test_the_kept_ratio_of_local_training_is_the_papers(N_sf, paper, tolerance):
    generator = rng(0, "visits")
    ratios = [kept_ratio(accumulated_permutation(64, 0.1, N_sf, 100, generator)) for _ in range(10_000)]
    assert fmean(ratios) == pytest.approx(paper, abs=tolerance)


def test_the_kept_ratio_without_shuffles_and_with_one_full_shuffle():
    assert kept_ratio(accumulated_permutation(50, 0.1, 0.0, 100, rng(0, "visit"))) == 1
    assert kept_ratio(accumulated_permutation(50, 1.0, 1.0, 1, rng(0, "visit"))) == 0  # P_sf=1 moves every neuron
    perm = accumulated_permutation(50, 0.5, 20.0, 20, rng(0, "visit"))
    assert sorted(perm.tolist()) == list(range(50))


def test_kept_ratio_writes_what_its_plot_needs(command: Command):
    grid = ("study.neurons=40", "study.P_sf=[0,0.5,1]", "study.N_sf=[0,2]", "study.repeats=50")
    ended = command("study=kept_ratio", *grid)
    assert ended.code == 0, ended.err
    folder = ended.runs[-1]
    once, accumulated = records(folder)[:3], records(folder)[3:]
    assert [record["P_sf"] for record in once] == [0, 0.5, 1]
    assert (once[0]["kept"], once[2]["kept"]) == (1, 0)
    assert once[0]["deviation"] == 0 < once[1]["deviation"]
    assert [(record["N_sf"], record["P_sf"]) for record in accumulated] == [(0, 0.1), (2, 0.1)]
    assert read_json(folder / "summary.json") == {
        "summary/kept_N_sf_0": 1.0,
        "summary/kept_N_sf_2": accumulated[1]["kept"],
    }
    assert sorted(read_json(folder / "order.json")["order"]) == list(range(40))
    assert (folder / "kept_ratio.png").exists()


def test_the_shuffle_error_by_hand():
    plain = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    shuffled = torch.tensor([[3.0, 4.0], [1.0, 1.0]])
    assert shuffle_error(shuffled, plain) == pytest.approx((5 / 2 + 0) / 2)


SMALL_NETS = {
    "mlp": ("dataset=digits", "model=mlp", "model.width=128"),
    "vgg": ("dataset=digits", "model=vgg13", "model.convs='32 32 M 64 64 M 64 64'"),
    "resnet": ("dataset=digits", "model=resnet20", "model.width=16"),
}


@pytest.mark.parametrize("net", SMALL_NETS)
def test_the_error_grows_with_A_linearly_or_faster_and_hardly_with_T(command: Command, net):
    grid = ("study.A=[0,0.1,0.25,0.5,0.75,1]", "study.T=[1,4]", "study.samples=8", "study.repeats=8")
    ended = command("study=shuffle_error", *SMALL_NETS[net], *grid)
    assert ended.code == 0, ended.err
    folder = ended.runs[-1]
    error = {(r["mode"], r["T"], r["A"]): r["error"] for r in records(folder)}
    amplitudes = (0.1, 0.25, 0.5, 0.75, 1.0)
    for mode, T in {(mode, T) for mode, T, _ in error}:
        assert error[mode, T, 0.0] < 1e-3 * error[mode, T, 0.1]  # float summation order
        curve = [error[mode, T, A] for A in amplitudes]
        assert curve == sorted(curve)
    for A in amplitudes:
        assert 0.5 < error["mul", 4, A] / error["mul", 1, A] < 2
    assert error["mul", 1, 0.75] > error["add", 1, 0.75]
    summary = read_json(folder / "summary.json")
    assert summary["summary/power_add"] == pytest.approx(1, abs=0.2)
    assert summary["summary/power_mul"] > max(1.03, summary["summary/power_add"])
    assert (folder / "shuffle_error.png").exists()


def test_findings_of_several_seeds_are_means_over_seeds(command: Command):
    shuffles = ("study=kept_ratio", "study.neurons=40", "study.P_sf=[0.5]", "study.N_sf=[2]", "study.repeats=50")
    errors = ("study=shuffle_error", *SMALL_NETS["mlp"], "study.A=[0.1,0.5]", "study.T=[1]", "study.samples=8")
    for overrides, figure, finding in (
        (shuffles, kept_ratio_figure, "P_sf=0.5"),
        (errors, shuffle_error_figure, "power mul"),
    ):
        values = []
        for seed in (0, 1, 2):
            run = load_run(command(*overrides, f"seed={seed}").runs[-1])
            values.append(figure.draw(run).findings[finding].mean)
        together = load("runs")
        found = figure.draw(together[together["study"] == overrides[0].removeprefix("study=")]).findings[finding]
        assert found.mean == pytest.approx(fmean(values))
        assert (found.n, found.deviation) == (3, pytest.approx(stdev(values)))


def test_the_doctor_names_inactive_layers_and_shared_values(command: Command):
    ended = command("study=doctor", "dataset=cifar10", "model=vgg11", "pan=mul", "pan.T=32")
    assert ended.code == 0, ended.err
    first, second = records(ended.runs[-1])[:2]
    assert (first["layer"], first["width"], first["distinct"], first["largest_group"]) == ("conv1", 64, 1, 64)
    assert (first["on"], first["spread"]) == (False, 0)
    assert (second["distinct"], second["largest_group"], second["on"]) == (3, 64, True)  # 32 times 0, 1, 0, -1
    assert second["spread"] == pytest.approx(0.2)
    assert read_json(ended.runs[-1] / "summary.json")["summary/silent_layers"] == 1
    assert "conv1: no encoding" in ended.out
    assert (ended.runs[-1] / "encodings.png").exists()

    pairs = records(command("study=doctor", "model=mlp", "pan=add").runs[-1])
    assert [(row["distinct"], row["largest_group"]) for row in pairs] == [(513, 2)] * 3
    distinct = records(command("study=doctor", "model=mlp", "pan=add", "pan.encoding=ramp").runs[-1])
    assert [(row["distinct"], row["largest_group"]) for row in distinct] == [(1024, 1)] * 3


def test_the_doctor_reports_the_position_of_the_norm(command: Command):
    overrides = ("study=doctor", "dataset=cifar10", "model=vgg9", "model.norm=bn", "pan=mul", "pan.A=0.9")
    before = command(*overrides, "pan.placement=authors")
    assert {(row["norm"], row["on"]) for row in records(before.runs[-1])} == {("before bn", False)}
    assert "the BatchNorm after it cancels it" in before.out
    assert before.err == "fedpan_exp: warning: pan.A=0.9 is above 0.75, the paper's largest for pan=mul\n"
    after = command(*overrides)
    convs, hidden = records(after.runs[-1])[:6], records(after.runs[-1])[6:]
    assert {(row["norm"], row["on"]) for row in convs} == {("after bn", True)}
    assert {(row["norm"], row["on"]) for row in hidden} == {("none", True)}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("study=kept_ratio study.P_sf=[0.5,1.5]", "study.P_sf must be in [0, 1], got 1.5"),
        ("study=kept_ratio study.P_sf=[]", "study.P_sf must be a list of at least one value, got []"),
        ("study=kept_ratio study.N_sf=[-1]", "study.N_sf must be between 0 and study.steps=100, got -1.0"),
        ("study=kept_ratio study.N_sf=[]", "study.N_sf must be a list of at least one value, got []"),
        ("study=kept_ratio study.repeats=0", "study.repeats must be at least 1, got 0"),
        ("study=shuffle_error study.P_sf=-0.1", "study.P_sf must be in [0, 1], got -0.1"),
        ("study=shuffle_error study.repeats=0", "study.repeats must be at least 1, got 0"),
        ("study=shuffle_error study.A=[]", "study.A must be a list of at least one value, got []"),
        ("study=shuffle_error study.modes=[sub]", "study.modes must be add or mul, got sub"),
        ("study=doctor study.A=1", "study.A is not a setting; study has name"),
        (
            "pan.encoding=cosin",
            "pan.encoding must be sine, cosine, sign, ramp, quarter or random, got cosin; did you mean cosine?",
        ),
    ],
)
def test_invalid_settings_get_one_line_and_leave_no_files(command: Command, overrides, message):
    ended = command(*overrides.split())
    assert (ended.code, ended.err) == (1, f"fedpan_exp: {message}\n")
    assert not Path("runs").exists()
