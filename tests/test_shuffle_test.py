"""Shuffling a trained network costs accuracy only with position-aware neurons."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from conftest import experiment
from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.shuffle import sample_permutations
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.rng import rng
from fedpan_exp.training import EpochBatches

NET = ("dataset=digits", "model.width=24", "model.depth=2", "training.warmup_length=10")
SHUFFLE = ("study=shuffle_test", *NET, "study.epochs=6", "study.lr=0.3", "study.P_sf=[0,0.5,1]", "study.repeats=3")


def lines(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_a_plain_network_loses_nothing(command):
    ran = command(*SHUFFLE, "pan=off")
    assert ran.code == 0, ran.err
    (run,) = ran.runs
    accuracy = json.loads((run / "summary.json").read_text())["summary/test_acc"]
    assert accuracy > 0.5
    for record in lines(run):
        assert record["test_acc"] == pytest.approx(accuracy, abs=1e-12)
        assert record["error"] < 1e-5
        assert record["deviation"] == pytest.approx(0, abs=1e-12)
    assert (run / "shuffle_test.png").exists()
    assert not (run / "checkpoint").exists()


def test_the_loss_of_a_network_with_pans_against_numpy(command):
    overrides = (*SHUFFLE, "pan=mul", "pan.A=0.75")
    (run,) = command(*overrides).runs
    none, half, full = lines(run)
    assert [record["P_sf"] for record in lines(run)] == [0, 0.5, 1]
    assert none["error"] == 0
    assert none["test_acc"] > full["test_acc"] + 0.05
    assert 0 < half["error"] < full["error"] * 1.5

    one = experiment(*overrides)
    net, data = one.network(), one.dataset.load(0)
    state = load_file(run / "weights.safetensors")
    x, outputs = one.dataset.transform(torch.device("cpu")).normalize(data.test.x), []
    for repeat in (None, 0, 1, 2):
        spec = net.permutation_spec
        permutations = {} if repeat is None else sample_permutations(spec, 1.0, rng(0, "shuffle", repeat))
        net.load_state_dict(permute(state, spec, permutations))
        outputs.append(net(x).detach().numpy())
    plain, *shuffled = outputs
    accuracies = [(out.argmax(1) == data.test.y.numpy()).mean() for out in shuffled]
    errors = [np.sqrt(((out - plain) ** 2).sum(1)).mean() / 10 for out in shuffled]
    assert full["test_acc"] == pytest.approx(np.mean(accuracies))
    assert full["deviation"] == pytest.approx(np.std(accuracies, ddof=1))
    assert full["error"] == pytest.approx(np.mean(errors), rel=1e-4)


def test_a_run_interrupted_after_training_does_not_train_again(command, monkeypatch):
    overrides = (*SHUFFLE, "pan=mul")
    command(*overrides, "runs=whole")
    (whole,) = Path("whole").glob("*-*")
    with monkeypatch.context() as patched:

        def interrupt(*_):
            raise KeyboardInterrupt

        patched.setattr("fedpan_exp.studies.shuffle_test.study.permute", interrupt)
        (run,) = command(*overrides).runs

    def train_again(_):
        yield pytest.fail("trained again")

    monkeypatch.setattr(EpochBatches, "__iter__", train_again)
    ran = command(*overrides)
    assert ran.code == 0, ran.err
    assert "after epoch 6, from its checkpoint" in ran.out
    assert lines(run) == lines(whole)


def test_weights_of_a_run_are_loaded_only_for_the_same_network(command):
    trained = command("study=centralize", *NET, "study.epochs=2", "pan=off")
    (run,) = trained.runs
    ran = command(*SHUFFLE, f"study.weights={run}", "pan=mul", "pan.A=0")  # equivalent to pan=off
    assert ran.code == 0, ran.err
    assert "epoch" not in ran.out.split("device")[1]
    final = json.loads((run / "summary.json").read_text())["summary/final_acc"]
    assert lines(ran.runs[-1])[0]["test_acc"] == final

    def rejection(*overrides: str) -> str:
        folders = len(ran.runs)
        rejected = command(*SHUFFLE, f"study.weights={run}", "study.repeats=2", *overrides)
        assert rejected.code == 1
        assert len(rejected.err.splitlines()) == 1
        assert len(ran.runs) == folders
        return rejected.err.strip()

    saved = yaml.safe_load((run / "config.yaml").read_text())
    del saved["model"]["head"], saved["model"]["init"]  # which earlier versions did not have
    (run / "config.yaml").write_text(yaml.safe_dump(saved))
    assert command(*SHUFFLE, f"study.weights={run}", "study.repeats=1", "pan=off").code == 0

    start = "fedpan_exp: study.weights must be"
    assert rejection("pan=mul") == f"{start} a run with pan.mode=mul, got {run} with None"
    assert rejection("pan=off", "model.width=25") == f"{start} a run with model.width=25, got {run} with 24"
    (run / "config.yaml").write_text(
        yaml.safe_dump(yaml.safe_load((run / "config.yaml").read_text()) | {"dataset": {"name": "mnist"}})
    )
    assert rejection("pan=off") == f"{start} a run with dataset=digits, got {run} with mnist"
    (run / "config.yaml").write_text("no settings")
    assert "the folder of a finished run" in rejection("pan=off")
    (run / "config.yaml").unlink()
    assert rejection("pan=off") == f"{start} the folder of a finished run, got {run} (No such file or directory)"


def test_tensors_of_another_network_are_rejected(command):
    (run,) = command("study=centralize", *NET, "study.epochs=1", "pan=off").runs
    save_file({"head.weight": torch.zeros(2)}, run / "weights.safetensors")
    ran = command(*SHUFFLE, f"study.weights={run}", "pan=off")
    assert ran.err.strip().endswith(f"must be a run of the same network, got {run} with other tensors")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("study.P_sf=[0,1.5]", "study.P_sf must be in [0, 1], got 1.5"),
        ("study.P_sf=[]", "study.P_sf must be a list of at least one value, got []"),
        ("study.repeats=0", "study.repeats must be at least 1, got 0"),
        ("study.epochs=0", "study.epochs must be at least 1, got 0"),
    ],
)
def test_invalid_settings_are_rejected(override, message):
    with pytest.raises(ConfigError) as error:
        experiment("study=shuffle_test", override)
    assert str(error.value) == message
