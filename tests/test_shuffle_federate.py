"""Shuffling during local training: neurons are permuted with all their state, encodings are not."""

import json

import pytest
import torch
from torch.nn import functional as F

from conftest import PLAIN_PIXELS, clients_of, make_algorithm, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import ALGORITHMS
from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.shuffle import sample_permutations
from fedpan_exp.federation import Scene
from fedpan_exp.models import Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.resnet import ResNet
from fedpan_exp.studies.shuffle_federate.study import ShufflingClients, shuffle
from fedpan_exp.system.rng import rng
from fedpan_exp.training import Training

OFF = Pan()
NETS = {"mlp": lambda pan: MLP(16, 8, 2, 3, pan), "resnet": lambda pan: ResNet(1, 4, 1, 3, "bn", pan)}
SCENE = Scene(K=2, R=1.0, E=2, H=2, B=8)


def train(trainer, batches):
    trainer.fit(batches, 1, loss=lambda x, y: F.cross_entropy(trainer.net(x), y))


def shuffle_before_step(trainer, batches, at):
    for step, batch in enumerate(batches):
        if step == at:
            shuffle(trainer, 0.5, rng(0, "test"))
        yield batch


@pytest.mark.parametrize("name", NETS)
def test_shuffling_commutes_with_training(name):
    """Also tests momentum and norm statistics: three steps follow the shuffle."""
    batches = list(clients_of(random_images(40), [40]).batches(0, 1, E=1, B=8))
    trainer = trainer_of(NETS[name](OFF), Training(warmup="none", lr=0.1))
    start = trainer.net.weights.clone(), trainer.net.buffers.clone()
    train(trainer, batches)
    permutations = sample_permutations(trainer.net.net.permutation_spec, 0.5, rng(0, "test"))
    shuffled_after = permute(trainer.net.net.state_dict(), trainer.net.net.permutation_spec, permutations)
    shuffled_after = {name: tensor.clone() for name, tensor in shuffled_after.items()}
    plain = trainer.net.weights.clone()
    trainer.net.load(*start)
    train(trainer, shuffle_before_step(trainer, batches, at=2))
    assert not torch.allclose(trainer.net.weights, plain, atol=1e-3)
    for key, tensor in trainer.net.net.state_dict().items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor, shuffled_after[key], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("fast", [True, False])
def test_a_momentum_has_the_name_of_its_parameter_although_another_one_is_frozen(fast):
    net = NETS["mlp"](OFF)
    net.fixed["body.fc1.bias"] = torch.ones_like(net.get_parameter("body.fc1.bias"), dtype=torch.bool)
    trainer = trainer_of(net, Training(fast=fast))
    train(trainer, list(clients_of(random_images(40), [40]).batches(0, 1, E=1, B=8)))
    shapes = {name: tensor.shape for name, tensor in trainer.momenta().items()}
    assert shapes.keys() >= {"body.fc1.weight", "head.bias"}
    assert shapes == {name: net.get_parameter(name).shape for name in shapes}


@pytest.mark.parametrize(("pan", "changes"), [(OFF, False), (Pan("mul", A=0.5), True)])
def test_a_shuffle_changes_the_output_only_with_pans(pan, changes):
    images = random_images(40)
    trainer = trainer_of(NETS["mlp"](pan))
    trainer.net.weights.mul_(20)  # initial weights are so small that all logits are almost equal
    x = PLAIN_PIXELS.normalize(images.x)
    before = trainer.net(x).detach()
    shuffle(trainer, 0.5, rng(0, "test"))
    assert torch.allclose(trainer.net(x), before, atol=1e-5) != changes


def rounds(algorithm, N_sf, P_sf=0.5, ranks=1):
    clients, trainer = clients_of(random_images(60), [20, 40]), trainer_of(NETS["resnet"](OFF))
    if N_sf is not None:
        clients = ShufflingClients(clients, trainer, N_sf, P_sf)
    *_, last = run_rounds(make_algorithm(algorithm), trainer, clients, SCENE, ranks)
    return last.server.weights.clone()


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS.keys() - {"fedma", "matched"}))  # which undo shuffles
def test_without_shuffles_it_equals_federate_bit_for_bit(algorithm):
    plain = rounds(algorithm, None)
    assert torch.equal(rounds(algorithm, 0.0), plain)
    assert not torch.allclose(rounds(algorithm, 3.0), plain, atol=1e-4)


def test_shuffles_do_not_depend_on_the_number_of_ranks():
    torch.testing.assert_close(rounds("fedavg", 3.0, ranks=2), rounds("fedavg", 3.0), atol=1e-5, rtol=1e-4)


def test_the_number_of_shuffles_is_as_expected(monkeypatch):
    calls = []
    monkeypatch.setattr("fedpan_exp.studies.shuffle_federate.study.shuffle", lambda *_: calls.append(1))
    clients = ShufflingClients(clients_of(random_images(50), [50]), None, 0.5, 0.1)  # 7 batches of 8, 2 epochs
    for round_idx in range(1000):
        assert len(list(clients.batches(0, round_idx, E=2, B=8))) == 14
    assert len(calls) == pytest.approx(500, abs=90)  # four standard deviations of a binomial
    calls.clear()
    clients.N_sf = 100.0
    list(clients.batches(0, 1, E=2, B=8))
    assert len(calls) == 14  # at most one per step


def test_the_study_writes_its_files(command):
    overrides = ("study=shuffle_federate", "scale=smoke", "fl_scene.H=1", "pan=off", "study.N_sf=2")
    outcome = command(*overrides)
    assert outcome.code == 0, outcome.err
    [folder] = outcome.runs
    assert {"curves.png", "partition.png", "weights.safetensors"} <= {path.name for path in folder.iterdir()}
    assert "summary/last5_acc" in json.loads((folder / "summary.json").read_text())


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("study.N_sf=-1", "study.N_sf must be at least 0, got -1.0"),
        ("study.N_sf=nan", "study.N_sf must be at least 0, got nan"),
        ("study.P_sf=1.5", "study.P_sf must be in [0, 1], got 1.5"),
        ("study.P_sf=-0.1", "study.P_sf must be in [0, 1], got -0.1"),
    ],
)
def test_invalid_settings_are_rejected_in_one_line(command, override, line):
    outcome = command("study=shuffle_federate", "scale=smoke", override)
    assert (outcome.code, outcome.err.strip(), outcome.runs) == (1, f"fedpan_exp: {line}", [])
