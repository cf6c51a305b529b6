"""Fusing two networks: a shuffle is undone exactly, and independently trained networks profit from alignment."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from networks import narrow, network

from conftest import experiment
from fedpan_exp.alignment.fusion import interpolate, neuron_weights, sinkhorn, transport
from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.shuffle import sample_permutations
from fedpan_exp.studies.shared.centralized import set_up_centralized
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.rng import rng

FUSE = (
    "study=fusion",
    "dataset=digits",
    "model.width=32",
    "model.depth=2",
    "training.warmup_length=10",
    "study.lr=0.3",
)


@pytest.mark.parametrize("by", ["activations", "weights"])
@pytest.mark.parametrize("model", ["model=mlp model.width=24", "model=resnet20 model.width=8 model.blocks=1"])
def test_the_study_aligns_a_network_with_its_shuffled_copy(by, model):
    one = experiment("study=fusion", "dataset=digits", "pan=off", f"study.by={by}", "study.samples=100", *model.split())
    setup = set_up_centralized(one, parts=2)
    state = {name: tensor.clone() for name, tensor in setup.eval_network.state_dict().items()}
    g = rng(0, "a trained look")
    state = {n: t + 0.05 * torch.rand(t.shape, generator=g) if t.is_floating_point() else t for n, t in state.items()}
    spec = setup.eval_network.permutation_spec
    shuffled = permute(state, spec, sample_permutations(spec, 1.0, rng(1, "shuffle")))
    plain = setup.evaluate(state).accuracy
    aligned = one.study.align(setup, state, shuffled)
    for mu in (0.0, 0.5, 1.0):
        assert setup.evaluate(interpolate(state, aligned, mu)).accuracy == plain


def test_interpolation_follows_the_formula_and_skips_counters():
    a = {"w": torch.tensor([0.0, 2.0]), "n": torch.tensor(3)}
    b = {"w": torch.tensor([4.0, 4.0]), "n": torch.tensor(9)}
    mixed = interpolate(a, b, 0.25)
    assert mixed["w"].tolist() == [1.0, 2.5]
    assert mixed["n"] == 3


def test_sinkhorn_is_doubly_stochastic_and_approaches_an_assignment():
    costs = torch.rand(8, 8, generator=rng(0, "costs"))
    soft = sinkhorn(costs, 0.5)
    assert torch.allclose(soft.sum(0), torch.ones(8, dtype=torch.float64), atol=1e-5)
    assert torch.allclose(soft.sum(1), torch.ones(8, dtype=torch.float64), atol=1e-5)
    # The plan is diag(u) exp(-c / (epsilon mean c)) diag(v): its cross ratios are those of the kernel.
    kernel, plan = np.exp(-costs.double().numpy() / (0.5 * costs.double().mean().item())), soft.numpy()
    ratio = kernel[0, 0] * kernel[1, 1] / (kernel[0, 1] * kernel[1, 0])
    assert plan[0, 0] * plan[1, 1] / (plan[0, 1] * plan[1, 0]) == pytest.approx(ratio)
    perm = torch.tensor([2, 0, 1, 3])
    sharp = sinkhorn(1 - torch.eye(4)[perm], 0.02)
    assert torch.allclose(sharp, torch.eye(4, dtype=torch.float64)[perm], atol=1e-6)
    assert torch.equal(sinkhorn(torch.zeros(2, 2), 0.1), torch.full((2, 2), 0.5, dtype=torch.float64))


def test_soft_transport_stays_within_sections():
    plan = sinkhorn(torch.rand(8, 8, generator=rng(0, "costs")), 1.0, sections=4)
    inside = torch.block_diag(*[torch.ones(2, 2)] * 4).bool()
    assert (plan[~inside] == 0).all()
    assert (plan[inside] > 0).all()


@pytest.mark.parametrize(("model", "norm"), [("mlp", None), ("vgg9", "gn8"), ("resnet20", "bn")])
def test_transport_with_permutation_matrices_equals_permute(model, norm):
    net = network(model, norm, *narrow(model))
    permutations = sample_permutations(net.permutation_spec, 1.0, rng(0, "shuffle"))
    plans = {group: torch.eye(len(perm), dtype=torch.float64)[perm] for group, perm in permutations.items()}
    moved, permuted = (
        move(net.state_dict(), net.permutation_spec, by) for move, by in ((transport, plans), (permute, permutations))
    )
    assert all(torch.equal(moved[name], permuted[name]) for name in permuted)
    for group, perm in permutations.items():
        rows = neuron_weights(
            permute(net.state_dict(), net.permutation_spec, {group: perm}), net.permutation_spec, group
        )
        assert torch.equal(rows, neuron_weights(net.state_dict(), net.permutation_spec, group)[perm])


@pytest.mark.parametrize("transport", ["hard", "entropic"])
def test_aligned_networks_are_averaged_better(command, transport):
    ran = command(*FUSE, "study.epochs=9", "study.samples=300", f"study.transport={transport}", "study.mu=[0,0.5,1]")
    assert ran.code == 0, ran.err
    (run,) = ran.runs
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [record["mu"] for record in records] == [0, 0.5, 1]
    assert records[0]["avg_acc"] == records[0]["ot_acc"] > 0.7
    assert records[2]["avg_acc"] > 0.7
    assert records[1]["ot_acc"] > records[1]["avg_acc"] + 0.05
    summary = json.loads((run / "summary.json").read_text())
    assert summary == {"summary/avg_middle": records[1]["avg_acc"], "summary/ot_middle": records[1]["ot_acc"]}
    assert (run / "fusion.png").exists()


def test_an_interrupted_run_resumes_with_the_interrupted_network(command, monkeypatch):
    overrides = (*FUSE, "study.epochs=2", "study.mu=[0,0.5]", "study.by=weights")
    command(*overrides, "runs=whole")
    (whole,) = Path("whole").glob("*-*")
    calls = []
    with monkeypatch.context() as patched:
        from fedpan_exp.studies.shared import centralized

        def evaluate(setup, state):
            calls.append(0)
            if len(calls) == 4:  # the second network's second epoch
                raise KeyboardInterrupt
            return setup.evaluator.evaluate(setup.test)

        patched.setattr(centralized.CentralizedSetup, "evaluate", evaluate)
        cut = command(*overrides)
    assert cut.code == 130
    (run,) = cut.runs
    ran = command(*overrides)
    assert "after epoch 2, from its checkpoint" in ran.out
    assert "after epoch 1, from its checkpoint" in ran.out
    assert (run / "metrics.jsonl").read_text() == (whole / "metrics.jsonl").read_text()


def test_pfnm_fuses_several_networks_better_than_their_mean(command):
    overrides = ("study.by=pfnm", "study.parts=4", "study.epochs=15", "pan=off", "model.depth=1")
    ran = command(*FUSE, *overrides)
    assert ran.code == 0, ran.err
    summary = json.loads((ran.runs[0] / "summary.json").read_text())
    assert summary["summary/pfnm_acc"] > summary["summary/avg_acc"] + 0.05
    assert summary["summary/single_acc"] > 0.7
    assert not (ran.runs[0] / "fusion.png").exists()  # there is no mu to draw the accuracy against


def test_the_mean_of_several_networks_is_interpolated(command):
    overrides = ("study.parts=3", "study.by=weights", "study.epochs=8", "study.mu=[0,1]")
    ran = command(*FUSE, *overrides)
    assert ran.code == 0, ran.err
    first, last = (json.loads(line) for line in (ran.runs[0] / "metrics.jsonl").read_text().splitlines())
    assert first["avg_acc"] == first["ot_acc"]
    assert last["avg_acc"] != last["ot_acc"]


def test_more_samples_than_images_are_rejected(command):
    ran = command(*FUSE, "study.samples=1438")
    assert ran.code == 1
    assert ran.err.strip() == "fedpan_exp: study.samples must be at most 1,437, the number of training images, got 1438"
    assert not ran.runs


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("study.mu=[0,2]", "study.mu must be in [0, 1], got 2.0"),
        ("study.by=weight", "study.by must be activations, weights or pfnm, got weight; did you mean weights?"),
        ("study.parts=1", "study.parts must be at least 2, got 1"),
        ("study.by=pfnm study.transport=entropic pan=off", "study.transport must be hard"),
        ("study.by=pfnm", "pan must be off for study.by=pfnm, which moves neurons to other positions, got mul with A="),
        (
            "study.by=pfnm dataset=cifar10 model=vgg9 pan=off",
            "model must be mlp with a hidden layer for study.by=pfnm, got vgg9",
        ),
        ("study.transport=soft", "study.transport must be hard or entropic, got soft"),
        ("study.positions=min", "study.positions must be all or max, got min"),
        ("study.epsilon=0", "study.epsilon must be above 0, got 0.0"),
        ("study.samples=0", "study.samples must be at least 1, got 0"),
        ("study.optimizer=lbfgs", "study.optimizer must be sgd or adam, got lbfgs"),
    ],
)
def test_invalid_settings_are_rejected(override, message):
    with pytest.raises(ConfigError) as error:
        experiment("study=fusion", *override.split())
    assert str(error.value).startswith(message)


def test_entropic_transport_without_pot_names_the_extra(monkeypatch):
    monkeypatch.setattr("fedpan_exp.studies.fusion.study.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"study\.transport must be hard without POT .*fedpan_exp\[ot\]"):
        experiment("study=fusion", "study.transport=entropic")
    assert experiment("study=fusion").study.transport == "hard"
