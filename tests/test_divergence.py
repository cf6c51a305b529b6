"""Client drift, against numpy."""

import numpy as np
import pytest
import torch

from conftest import PLAIN_PIXELS, clients_of, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import FedAvg
from fedpan_exp.alignment.divergence import weights_by_layer
from fedpan_exp.federation import Scene, Snapshot
from fedpan_exp.models import Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.resnet import ResNet
from fedpan_exp.models.vgg import VGG
from fedpan_exp.probes import PROBES
from fedpan_exp.training import FlatParameters


def make_setup(samples=(10, 15, 20)):
    trainer = trainer_of(MLP(16, 8, 1, 3, Pan("mul", A=0.3)))
    return trainer, clients_of(random_images(sum(samples)), list(samples))


def random_snapshot(trainer, clients) -> Snapshot:
    g = torch.Generator().manual_seed(0)
    size, no_buffers = len(trainer.net.weights), torch.empty(0)
    vectors = [FlatParameters(torch.randn(size, generator=g), no_buffers) for _ in range(len(clients) + 1)]
    return Snapshot(list(range(len(clients))), vectors[0], vectors[1:])


def flat_matrices(vector) -> dict[str, np.ndarray]:
    """Layer -> flat weights of this MLP, whose parameters are concatenated in the vector."""
    flat = vector.numpy()
    return {"fc1": flat[: 16 * 8], "head": flat[16 * 8 + 8 : 16 * 8 + 8 + 8 * 3]}


def test_divergence_is_the_distance_from_the_mean():
    trainer, clients = make_setup()
    snapshot = random_snapshot(trainer, clients)
    per_client = PROBES["divergence"](trainer, clients, random_images(5)).measure(snapshot)
    parts = [flat_matrices(local.weights) for local in snapshot.local_models]
    for layer in ("fc1", "head"):
        stacked = np.stack([part[layer] for part in parts])
        expected = np.linalg.norm(stacked - stacked.mean(0), axis=1)
        assert [client[layer] for client in per_client] == pytest.approx(expected.tolist(), rel=1e-5)


def test_cosine_of_each_update_with_the_mean_update():
    trainer, clients = make_setup()
    snapshot = random_snapshot(trainer, clients)
    per_client = PROBES["cosine"](trainer, clients, random_images(5)).measure(snapshot)
    start = flat_matrices(snapshot.before.weights)["fc1"]
    deltas = [flat_matrices(local.weights)["fc1"] - start for local in snapshot.local_models]
    mean = np.mean(deltas, 0)
    expected = [delta @ mean / np.linalg.norm(delta) / np.linalg.norm(mean) for delta in deltas]
    assert [client["fc1"] for client in per_client] == pytest.approx(expected, rel=1e-4)


def test_gradient_variance_is_over_full_client_gradients_at_the_mean_model():
    trainer, clients = make_setup()
    snapshot = random_snapshot(trainer, clients)
    per_client = PROBES["gradient_variance"](trainer, clients, random_images(5)).measure(snapshot)
    trainer.net.load(*snapshot.mean)
    gradients = []
    for k in range(3):
        images = clients.train_images(k)
        trainer.net.net.zero_grad()
        torch.nn.functional.cross_entropy(trainer.net.net(PLAIN_PIXELS.normalize(images.x)), images.y).backward()
        gradients.append(trainer.net.net.head.weight.grad.clone())
    stacked = torch.stack(gradients)
    expected = (stacked - stacked.mean(0)).square().sum((1, 2))
    assert [client["head"] for client in per_client] == pytest.approx(expected.tolist(), rel=1e-4)
    variance = stacked.var(0, correction=0).sum().item()
    assert sum(client["head"] for client in per_client) / 3 == pytest.approx(variance, rel=1e-4)


def test_a_snapshot_does_not_depend_on_the_number_of_ranks():
    def last_round(ranks):
        trainer, clients = make_setup((10, 30, 20))
        scene = Scene(K=3, R=1.0, E=1, H=2, B=8)
        *_, last = run_rounds(FedAvg(), trainer, clients, scene, ranks, snapshot_at=lambda round_idx: round_idx == 2)
        return last

    serial, parallel = last_round(1), last_round(2)
    torch.testing.assert_close(serial.snapshot.mean.weights, serial.server.weights)
    assert len(serial.snapshot.local_models) == 3
    for one, other in zip(serial.snapshot.local_models, parallel.snapshot.local_models, strict=True):
        torch.testing.assert_close(one.weights, other.weights)
    torch.testing.assert_close(serial.snapshot.before.weights, parallel.snapshot.before.weights)


def test_layer_names():
    pan = Pan()
    for net, names in (
        (MLP(16, 8, 2, 3, pan), ["fc1", "fc2", "head"]),
        (VGG((1, 8, 8), ["4", "M", "4"], [6], 3, "bn", pan), ["conv1", "conv2", "fc1", "head"]),
        (ResNet(1, 4, 1, 3, "bn", pan), ["stem", "block1_1.unit1", "block1_1.unit2"]),
    ):
        layers = weights_by_layer(dict(net.named_parameters()), net.permutation_spec)
        assert list(layers)[: len(names)] == names
        assert all(weights.dim() > 1 for weights in layers.values())
