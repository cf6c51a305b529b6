"""A PAN network and its plain twin: equal up to rounding where docs/identity.md says so, different elsewhere."""

import re

import pytest
import torch

from conftest import experiment
from fedpan_exp.config import Experiment
from fedpan_exp.federation import federate
from fedpan_exp.report.frame import load
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.studies.twin.figure import draw, recorded_verdict
from fedpan_exp.studies.twin.plain_twin import broken_conditions
from fedpan_exp.studies.twin.study import make_twin
from fedpan_exp.studies.twin.verdict import Verdict
from fedpan_exp.system.atomic_io import read_json, read_lines
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.tracking.record import Record

SMALL = (
    *("study=twin", "dataset=digits", "model.init=he", "training.warmup=none", "training.clip=null"),
    *("fl_scene.K=4", "fl_scene.R=0.5", "fl_scene.E=1", "fl_scene.H=2", "fl_scene.alpha=1"),
)
MLP = ("model.width=12", "model.depth=2")
SERVER_ADAM = ("algorithm=fedopt", "algorithm.server_optimizer=adam", "algorithm.server_lr=0.01")
ADD, MUL = ("pan=add", "pan.A=0.25"), ("pan=mul", "pan.A=0.5")
NETWORKS = {
    "vgg": (*MUL, "model=vgg9", "model.convs='4 M 6'", "model.hidden=[8]"),
    "vgg bn": (*ADD, "model=vgg9", "model.convs='4 M 6'", "model.hidden=[8]", "model.norm=bn"),
    "vgg bn, authors": (*MUL, "model=vgg9", "model.convs='4 M 6'", "model.norm=bn", "pan.placement=authors"),
    "resnet bn": (*MUL, "model=resnet20", "model.width=4", "model.blocks=1"),
    "resnet gn2": (*ADD, "model=resnet20", "model.width=4", "model.blocks=1", "model.norm=gn2"),
    "frozen head": (*MUL, *MLP, "model.head=etf"),
    "compensated": (*MUL, *MLP, "training.neuron_rates=compensated"),
}


def small(*overrides: str) -> Experiment:
    return experiment(*SMALL, *overrides)


def difference(settings: Experiment) -> float:
    """The largest difference of a mapped weight over all rounds, relative to how far the weights have moved."""
    setup = set_up(settings)
    task = make_task(settings, setup)
    twin, mapped = make_twin(settings, setup)
    start = setup.trainer.net.weights.clone()
    largest = 0.0
    for ours, theirs in zip(federate(task), federate(twin), strict=True):
        largest = max(largest, (mapped(ours.server.weights) - theirs.server.weights).abs().max().item())
    moved = (ours.server.weights - start).abs().max().item()
    assert moved > 0.01
    assert ours.server.weights.dtype == torch.float64
    return largest / moved


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox", "fedopt", "scaffold", "moon"])
@pytest.mark.parametrize("pan", [ADD, MUL], ids=["add", "mul"])
def test_training_absorbs_the_encoding(pan, algorithm):
    strong = {"fedprox": ("algorithm.mu=0.1",)}.get(algorithm, ())
    assert difference(small(*MLP, *pan, f"algorithm={algorithm}", *strong)) < 1e-9


@pytest.mark.parametrize("algorithm", ["fednova", "feddyn", "fedrs", "fedphp", "fedpfn", "fedpnu"])
def test_training_absorbs_the_encoding_with_other_algorithms(algorithm):
    assert difference(small(*MLP, *MUL, f"algorithm={algorithm}")) < 1e-9


@pytest.mark.parametrize("network", NETWORKS)
def test_training_absorbs_the_encoding_of_any_network(network):
    assert difference(small(*NETWORKS[network])) < 1e-9


def test_the_shuffled_order_and_plain_sgd_are_absorbed_too():
    assert difference(small(*MLP, *MUL, "pan.order=shuffled", "training.fast=false")) < 1e-9


BROKEN = {
    "weight decay, add": (*ADD, "training.weight_decay=0.01"),
    "weight decay, mul": (*MUL, "training.weight_decay=0.01"),
    "own encodings": (*MUL, "pan.per_client=own"),
    "clipping": (*MUL, "training.clip=0.1"),
    "server adam": (*MUL, *SERVER_ADAM),
    **{kind: (f"pan={kind}",) for kind in ("frozen_bias", "after", "slope", "w_asym", "sigma_asym")},
}


@pytest.mark.parametrize("case", BROKEN)
def test_training_does_not_absorb(case):
    settings = small(*MLP, *BROKEN[case])
    assert difference(settings) > 1e-4
    (condition,) = broken_conditions(settings)
    assert (
        Verdict(1.0, 1e-9).describe([condition]) == f"not absorbed: largest difference of a weight 1.0e+00; {condition}"
    )


@pytest.mark.parametrize("exact", [(*ADD, "training.clip=0.1"), (*ADD, *SERVER_ADAM)], ids=" ".join)
def test_add_is_absorbed_where_coordinates_are_only_shifted(exact):
    settings = small(*MLP, *exact)
    assert difference(settings) < 1e-9
    assert not broken_conditions(settings)


@pytest.mark.parametrize("pan", ["off", "bias_init", "rates"])
def test_a_plain_network_has_no_twin(pan):
    with pytest.raises(ConfigError, match=f"^pan must be a PAN for study=twin.*, got {pan}$"):
        small(f"pan={pan}")


def test_the_study_prints_and_draws(command):
    result = command(*SMALL, *MLP, *MUL, "fl_scene.H=2")
    assert result.code == 0, result.err
    assert "result    absorbed: largest difference of a weight " in result.out
    assert (result.runs[-1] / "twin.png").exists()


def test_the_verdict_is_undecided_where_rounding_alone_exceeds_the_tolerance(command):
    """In 32 bits, with a learning rate at which a change of the last bit grows a million times."""
    result = command(*SMALL, *MLP, *MUL, "fabric.precision=32-true", "training.lr=3", "fl_scene.H=8", "fl_scene.E=5")
    assert result.code == 0, result.err
    assert re.search(r"result    undecided: largest difference of a weight \S+, by rounding alone \S+\n", result.out)
    summary = read_json(result.runs[-1] / "summary.json")
    assert min(summary["summary/difference"], summary["summary/rounding"]) >= 1e-3
    assert "summary/absorbed" not in summary
    assert recorded_verdict(load(result.runs[-1].parent).iloc[0]) == "undecided"


@pytest.mark.parametrize(
    ("difference", "rounding", "verdict"),
    [(1e-12, None, "absorbed"), (1e-3, None, "not absorbed"), (1e-3, 1e-12, "not absorbed"), (1e-3, 1e-6, "undecided")],
)
def test_verdicts_are_written_and_read(difference, rounding, verdict):
    found = Verdict(difference, 1e-9, rounding)
    assert str(found) == verdict
    assert recorded_verdict(found.summary()) == verdict


def test_the_figure_of_several_runs_has_a_line_for_each(command):
    runs = command(*SMALL, *MLP, *MUL, "fl_scene.H=2", "training.weight_decay=0,0.001", "-m").runs
    assert len(runs) == 2
    drawn = draw(load(runs[0].parent))
    rows = {row["run"]: row for row in drawn.table.to_dict("records")}
    assert {name: row[""] for name, row in rows.items()} == {
        "weight_decay=0": "absorbed",
        "weight_decay=0.001": "not absorbed",
    }
    for run in runs:
        differences = [record["twin/difference"] for record in read_lines(run / "metrics.jsonl")]
        assert f"{max(differences):.1e}" in [row["largest difference"] for row in rows.values()]
    assert len(drawn.figure.axes[0].lines) == 2


def test_the_twins_are_compared_in_every_round_and_tested_in_some(command):
    (folder,) = command(*SMALL, *MLP, *MUL, "fl_scene.H=9", "eval_every=3").runs
    records = read_lines(folder / "metrics.jsonl")
    assert [record["round"] for record in records if "pan/test_acc" in record] == [3, 5, 6, 7, 8, 9]
    assert all(record["twin/difference"] < 1e-9 for record in records)
    assert len(records) == 9


@pytest.mark.parametrize("is_intact", [True, False])
def test_an_interrupted_study_resumes_with_the_same_numbers(command, monkeypatch, is_intact):
    study = (*SMALL, *MLP, *MUL, "algorithm=scaffold", "fl_scene.H=5", "checkpoint.every=2")
    write = Record.write

    def interrupted_after_round_3(record, round_idx, metrics):
        write(record, round_idx, metrics)
        if round_idx == 3:
            raise KeyboardInterrupt

    def numbers() -> list[dict[str, float]]:
        return [record | {"time/round_s": 0.0} for record in read_lines(folder / "metrics.jsonl")]

    with monkeypatch.context() as patched:
        patched.setattr(Record, "write", interrupted_after_round_3)
        (folder,) = command(*study).runs
    if not is_intact:
        (folder / "checkpoint" / "twin" / "0000002.json").unlink()
    resumed = command(*study)
    assert ("resume    after round 2, from its checkpoint" in resumed.out) == is_intact
    assert ("the twin's checkpoint of round 2 is not intact" in resumed.err) != is_intact
    after_resume = numbers()
    assert "resume" not in command(*study, "rerun=true").out
    assert numbers() == after_resume
    assert [record["round"] for record in after_resume] == [1, 2, 3, 4, 5]
