"""Probes on federated runs, and the studies that compare networks, through the command line."""

import json

import pytest
import torch
from safetensors.torch import load_file

from conftest import experiment
from fedpan_exp.tracking.identity import run_id

SMOKE = ("scale=smoke", "model.width=32")
ALL = "probes=[divergence,gradient_variance,cosine,matching,preference]"


def records(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.startswith("time/")} for line in lines]


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("model=resnet20", "model.width=4", "model.blocks=1", "algorithm=moon")])
def test_probes_add_metrics_and_change_no_others(command, more):
    overrides = (*SMOKE, "fl_scene.H=3", *more)
    plain = command(*overrides).runs[-1]
    outcome = command(*overrides, ALL, "probe_every=2")
    assert outcome.code == 0, outcome.err
    probed = outcome.runs[-1]
    assert plain != probed  # a run without probes must not be reused for one with probes
    kinds = {"divergence", "gradient_variance", "cosine", "matching", "preference"}
    for before, line in zip(records(plain), records(probed), strict=True):
        extra = line.keys() - before.keys()
        assert {name: line[name] for name in before} == before
        assert {name.split("/")[0] for name in extra} == (kinds if line["round"] in (2, 3) else set())
    weights = [load_file(folder / "weights.safetensors") for folder in (plain, probed)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    last = records(probed)[-1]
    assert {name.removeprefix("summary/"): value for name, value in summary(probed).items() if "fc1" in name} == {
        name: value for name, value in last.items() if "fc1" in name
    }


def test_probe_every_affects_the_identity_only_with_probes():
    from omegaconf import OmegaConf

    def id_of(*overrides):
        return run_id(OmegaConf.to_container(OmegaConf.structured(experiment(*SMOKE, *overrides))))

    plain = id_of()
    assert id_of("probe_every=7") == plain
    assert len({plain, id_of("probes=[cosine]"), id_of("probes=[cosine]", "probe_every=7")}) == 3


def test_the_divergence_study_plots_one_bar_per_layer(command):
    [folder] = command("study=divergence", *SMOKE).runs
    assert [line.get("divergence/fc2") is not None for line in records(folder)] == [False, True]
    assert summary(folder)["summary/divergence/fc2"] == records(folder)[-1]["divergence/fc2"]
    assert "summary/gradient_variance/head" in summary(folder)
    assert (folder / "divergence.png").exists()


@pytest.mark.parametrize("by", ["activations", "weights"])
def test_the_matching_study_writes_the_assignment_of_each_layer(command, by):
    overrides = ("study.E=2", "study.samples=100", "study.layers=[fc3,fc1]", f"study.by={by}")
    [folder] = command("study=matching", *SMOKE, *overrides).runs
    permutations = json.loads((folder / "matching.json").read_text())
    assert list(permutations) == ["fc3", "fc1"]
    for layer, perm in permutations.items():
        assert sorted(perm) == list(range(32))
        assert summary(folder)[f"summary/matching/{layer}"] == sum(i == j for i, j in enumerate(perm)) / 32
    assert (folder / "matching.png").exists()


def test_the_preference_study_writes_the_vectors_of_both_models(command):
    overrides = ("study.E=2", "study.samples=100", "study.layers=[fc3,head]")
    [folder] = command("study=preference", *SMOKE, *overrides).runs
    vectors = load_file(folder / "preference.safetensors")
    shapes = {name: list(vector.shape) for name, vector in vectors.items()}
    assert shapes == {
        f"{model}/{layer}": [n, 10] for model in ("global", "local") for layer, n in (("fc3", 32), ("head", 10))
    }
    assert 0 <= summary(folder)["summary/preference/fc3"] <= 1
    assert "summary/last5_acc" in summary(folder)
    assert (folder / "preference.png").exists()


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["probes=[divergance]"], "probes must be divergence, gradient_variance, cosine, matching, preference, "
         "barrier, matching_gap or swap_cost, got divergance; did you mean divergence?"),
        (["probe_every=-1"], "probe_every must be at least 0, got -1"),
        (["study=matching", "study.samples=100", "study.layers=[fc9]"],
         "study.layers must be fc1, fc2, fc3 or head, got fc9; did you mean fc3?"),
        (["study=preference", "study.samples=500"],
         "study.samples must be at most 360, the test images of digits, got 500"),
        (["study=matching", "study.samples=0"], "study.samples must be at least 1, got 0"),
        (["study=preference", "study.E=0"], "study.E must be at least 1, got 0"),
        (["study=matching", "study.by=names"], "study.by must be activations or weights, got names"),
        (["study=matching", "study.positions=some"], "study.positions must be all or max, got some"),
        (["study=matching", "study.by=weights", "study.layers=[head]"],
         "study.layers must be hidden layers with study.by=weights, got head"),
        (["study=divergence", "probes=[cosine]"],
         "probes must be a list with divergence for study=divergence, got ['cosine']"),
    ],
)  # fmt: skip
def test_invalid_settings_get_one_line_and_leave_no_runs(command, overrides, line):
    outcome = command(*SMOKE, *overrides)
    assert (outcome.code, outcome.err.strip(), outcome.runs) == (1, f"fedpan_exp: {line}", [])
