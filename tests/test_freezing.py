"""Frozen entries of the weights never change, whatever else moves weights."""

from dataclasses import dataclass

import pytest
import torch

from conftest import clients_of, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import ALGORITHMS, FedAvg
from fedpan_exp.federation import Scene
from fedpan_exp.models import Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.training import FlatNet, Training, classification_loss


def freezing(algorithm: type[FedAvg], mask: torch.Tensor) -> FedAvg:
    @dataclass
    class Freezing(algorithm):
        def frozen(self, net, client):
            return mask

    return Freezing()


def mask_of(net: FlatNet) -> torch.Tensor:
    """The first layer as a whole, a third of the second."""
    mask = torch.zeros_like(net.weights, dtype=torch.bool)
    views = net.named_views(mask)
    views["body.fc1.weight"].fill_(True)
    views["body.fc1.bias"].fill_(True)
    views["body.fc2.weight"].view(-1)[::3] = True
    return mask


@pytest.mark.parametrize("training", [{}, {"fast": False}, {"clip": 0.5}, {"momentum": 0.0}], ids=str)
# feddf trains the server, too; the others move neurons
@pytest.mark.parametrize("name", sorted({*ALGORITHMS} - {"feddf", "fedma", "matched"}))
def test_frozen_entries_never_change(name, training):
    trainer = trainer_of(MLP(16, 8, 2, 3, Pan()), Training(warmup="none", weight_decay=0.01, **training))
    trainer.net.weights.mul_(20)
    mask, start = mask_of(trainer.net), trainer.net.weights.clone()
    clients, scene = clients_of(random_images(24), [8, 16]), Scene(K=2, R=1.0, E=1, H=2, B=8)
    *_, last = run_rounds(freezing(ALGORITHMS[name], mask), trainer, clients, scene)
    moved = last.server.weights != start
    assert not moved[mask].any()
    assert moved[~mask].float().mean() > 0.9


def test_a_layer_frozen_after_it_was_trained_does_not_move_by_its_old_momentum():
    trainer = trainer_of(MLP(16, 8, 2, 3, Pan()))
    batches = list(clients_of(random_images(16), [16]).batches(0, 1, E=1, B=8))
    fit = {"loss": lambda x, y: classification_loss(trainer.net(x), y)}
    trainer.fit(batches, 1, **fit)
    mask, before = mask_of(trainer.net), trainer.net.weights.clone()
    with trainer.net.freezing(mask):
        trainer.fit(batches, 1, **fit)
    assert torch.equal(trainer.net.weights[mask], before[mask])
    assert not torch.equal(trainer.net.weights[~mask], before[~mask])


def test_backward_skips_layers_that_are_frozen_as_a_whole():
    net = FlatNet(MLP(16, 8, 2, 3, Pan()))
    names = [name for name, _ in net.net.named_parameters()]
    with net.freezing(mask_of(net)):
        classification_loss(net(torch.randn(4, 1, 4, 4)), torch.tensor([0, 1, 2, 0])).backward()
        with_gradient = [name for name, p in zip(names, net.parameters, strict=True) if p.grad is not None]
    assert with_gradient == names[2:]
    assert all(p.requires_grad for p in net.parameters)
