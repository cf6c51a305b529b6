"""Centralized training with lightning.Trainer: the same steps as our own loop, the same numbers after a resume."""

import json
import logging
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from conftest import clients_of, experiment, random_images, trainer_of
from fedpan_exp.models import Network, Pan, authors_init
from fedpan_exp.models.mlp import MLPSettings
from fedpan_exp.system.errors import ConfigError, Diverged
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.training import (
    Classifier,
    EpochBatches,
    EpochCheckpoint,
    FabricSettings,
    Training,
    read_progress,
    train,
)

SMALL = ("study=centralize", "dataset=digits", "model.width=16", "model.depth=1", "training.warmup_length=5")
CPU = FabricSettings(accelerator="cpu")


def small_net() -> Network:
    net = MLPSettings(name="mlp", width=8, depth=1).build((1, 4, 4), 3, Pan())
    authors_init(net, rng(0, "weights"))
    return net


def epochs_of(samples: int = 50, B: int = 16, skip_single: bool = False) -> EpochBatches:
    return EpochBatches(clients_of(random_images(samples), [samples]), 0, B, skip_single, StopRequest(), lambda: None)


def checkpoint_in(folder: Path, reports: list | None = None) -> EpochCheckpoint:
    """A checkpoint callback that appends (epoch, loss) to `reports`."""
    reports = [] if reports is None else reports
    return EpochCheckpoint(folder / "net.safetensors", lambda *report: reports.append(report) or {}, lambda: 0)


def records_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def without_times(run: Path) -> list[dict]:
    return [{name: value for name, value in line.items() if "time" not in name} for line in records_of(run)]


@pytest.mark.parametrize("settings", [Training(warmup_length=3), Training(momentum=0.0, clip=0.1, weight_decay=0.1)])
def test_lightnings_trainer_takes_the_same_steps_as_our_own(settings, tmp_path):
    ours, net = trainer_of(small_net(), settings), small_net()
    reports = []
    train(Classifier(net, settings), epochs_of(), 1, checkpoint_in(tmp_path, reports), CPU)
    clients = clients_of(random_images(50), [50])
    fit = ours.fit(
        clients.batches(0, 1, 1, 16), 1, lambda x, y: torch.nn.functional.cross_entropy(ours.net(x), y), lambda: None
    )
    for name, tensor in ours.net.net.state_dict().items():
        assert torch.allclose(net.state_dict()[name], tensor, atol=1e-7), name
    assert reports == [(1, pytest.approx(fit.loss, rel=1e-5))]


def test_the_first_step_of_adam_has_the_size_of_lr(tmp_path):
    settings, net = Training(lr=1e-3, warmup="none"), small_net()
    train(Classifier(net, settings, "adam"), epochs_of(16), 1, checkpoint_in(tmp_path), CPU)
    for name, tensor in small_net().state_dict().items():  # Adam's first step moves a weight by at most lr
        step = (net.state_dict()[name] - tensor).abs()
        assert step.max() <= 1e-3 * (1 + 1e-3)
        assert step.max() > 0.9e-3


def test_every_epoch_has_its_own_order_and_single_samples_are_skipped_for_batch_norm():
    batches = epochs_of(33, 16)
    assert [len(y) for _, y in batches] == [16, 16, 1]
    assert len(batches) == 3
    first = torch.cat([y for _, y in batches])
    batches.set_epoch(2)
    assert not torch.equal(torch.cat([y for _, y in batches]), first)
    batches = epochs_of(33, 16, skip_single=True)
    assert [len(y) for _, y in batches] == [16, 16]
    assert len(batches) == 2


def test_a_loss_that_is_not_finite_ends_the_training(tmp_path):
    module = Classifier(small_net(), Training(lr=1e30, warmup="none"))
    with pytest.raises(Diverged, match=r"diverged in epoch 1: the training loss is nan; try a smaller"):
        train(module, epochs_of(), 3, checkpoint_in(tmp_path), CPU)


def test_a_run_learns_and_writes_only_the_expected_files(command):
    result = command(*SMALL, "study.epochs=8", "study.lr=0.2")
    assert result.code == 0, result.err
    assert result.err == ""
    assert "epoch 8/8" in result.out
    assert "GPU" not in result.out
    (run,) = result.runs
    files = {"config.yaml", "curves.png", "metrics.jsonl", "status.json", "summary.json", "weights.safetensors"}
    assert {path.name for path in run.iterdir() if path.name[0] != "."} == files
    records = records_of(run)
    assert [record["round"] for record in records] == list(range(1, 9))
    assert records[-1]["global/test_acc"] > 0.8
    assert records[-1]["global/test_acc"] * 360 == pytest.approx(round(records[-1]["global/test_acc"] * 360), abs=1e-9)
    assert records[-1]["train/loss"] < records[0]["train/loss"] / 2
    net = experiment(*SMALL).network()
    net.load_state_dict(load_file(run / "weights.safetensors"))
    assert not Path("lightning_logs").exists()


def test_an_interrupted_run_resumes_and_gives_the_same_numbers(command, monkeypatch):
    overrides = (*SMALL, "dataset.flip=true", "study.epochs=4")  # augmentation uses random numbers, too
    command(*overrides, "runs=straight")
    (straight,) = Path("straight").glob("*-*")
    interruptible = StopRequest.interruptible

    def stop_in_epoch_3(stop, items):
        for i, item in enumerate(interruptible(stop, items)):
            saved = list(Path("runs").glob("*/checkpoint/*"))
            if saved and i == 5 and read_progress(saved[0]).epochs == 2:
                stop.request(signal.SIGTERM)
            yield item

    with monkeypatch.context() as patched:
        patched.setattr(StopRequest, "interruptible", stop_in_epoch_3)
        interrupted = command(*overrides)
    assert interrupted.code == 128 + signal.SIGTERM
    assert "interrupted; run the same command to resume: " in interrupted.err
    (run,) = interrupted.runs
    assert json.loads((run / "status.json").read_text())["status"] == "interrupted"
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"round": 3, "global/test_acc": 9}\n')  # as if the crash came between record and checkpoint
    resumed = command(*overrides)
    assert "after epoch 2, from its checkpoint" in resumed.out
    assert without_times(run) == without_times(straight)
    assert (run / "weights.safetensors").read_bytes() == (straight / "weights.safetensors").read_bytes()
    assert not (run / "checkpoint").exists()


def test_a_damaged_checkpoint_is_ignored(tmp_path, capsys):
    path = tmp_path / "net0.safetensors"
    path.write_bytes(b"no tensors")
    assert read_progress(path) == (0, 0)
    assert "ignoring the checkpoint" in capsys.readouterr().err
    assert not path.exists()


def test_federated_settings_do_not_change_the_run(command):
    first = command(*SMALL, "study.epochs=1")
    again = command(*SMALL, "study.epochs=1", "algorithm=moon", "fl_scene.K=7", "fl_scene.partition=iid")
    assert "already done" in again.out
    assert first.runs == again.runs


def test_the_papers_settings_are_the_defaults():
    for dataset, epochs in {"femnist": 30, "gtsrb": 20, "svhn": 30, "cifar10": 30, "cifar100": 100}.items():
        assert experiment("study=centralize", f"dataset={dataset}").study.epochs == epochs
    central = experiment("study=centralize", "model=resnet20", "dataset=cifar10")
    assert central.training.warmup_length == 100
    assert central.study.training(central.training).lr == 0.1
    adam = experiment("study=centralize", "study.optimizer=adam")
    assert adam.study.training(adam.training).lr == 3e-4
    authors = experiment("study=centralize", "fidelity=authors")
    assert authors.study.training(authors.training).warmup == "steps"  # there are no rounds


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("study.epochs=0", "study.epochs must be at least 1, got 0"),
        ("study.optimizer=adm", "study.optimizer must be sgd or adam, got adm; did you mean adam?"),
        ("study.lr=-1", "study.lr must be above 0, or null for the default, got -1.0"),
        ("study.B=0", "study.B must be at least 1, got 0"),
        ("study.B=1 model=resnet20", "study.B must be at least 2 for a network with BatchNorm, got 1"),
    ],
)
def test_invalid_settings_are_rejected(overrides, message):
    with pytest.raises(ConfigError) as error:
        experiment("study=centralize", *overrides.split())
    assert str(error.value) == message


def test_the_log_level_of_lightning_is_restored(tmp_path):
    level = logging.getLogger("lightning.pytorch").level
    train(Classifier(small_net(), Training()), epochs_of(), 1, checkpoint_in(tmp_path), CPU)
    assert logging.getLogger("lightning.pytorch").level == level
