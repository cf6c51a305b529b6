"""The local optimizer is torch's; large linear layers, whose gradients fade, train the same up to rounding."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from conftest import clients_of, experiment, random_images, trainer_of
from fedpan_exp.algorithms import ALGORITHMS
from fedpan_exp.federation import Scene, federate
from fedpan_exp.models import Linear, Network, Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.network import Shape
from fedpan_exp.models.resnet import ResNet
from fedpan_exp.training import FlatNet, LocalTrainer, Training, local
from fedpan_exp.training.sgd import LocalSGD


def small_net() -> MLP:
    return MLP(16, 8, 2, 3, Pan("mul", A=0.3))


@pytest.fixture
def all_layers_fade(monkeypatch):
    monkeypatch.setattr(local, "FADING_WEIGHTS", 1)


def fading_layers(trainer: LocalTrainer) -> int:
    with trainer._optimizer.visit(weight_decay=0.0):
        return sum(isinstance(m, Linear) and m.grad_momentum is not None for m in trainer.net.net.modules())


def beside_torchs(make_net: Callable[[], Network]) -> tuple[FlatNet, FlatNet]:
    """Two networks with the same weights: one for our optimizer, one for torch's."""
    ours, theirs = FlatNet(make_net()), FlatNet(make_net())
    theirs.load(ours.weights, ours.buffers)
    return ours, theirs


def take_steps(
    nets: tuple[FlatNet, FlatNet], ours: LocalSGD, theirs: torch.optim.SGD, visit: int, shape: Shape
) -> None:
    for step in range(3):
        images = random_images(8, shape=shape, seed=10 * visit + step)
        for net in nets:
            F.cross_entropy(net(images.x.float()), images.y).backward()
        lr = theirs.param_groups[0]["lr"] = 0.1 * (step + 1)
        ours.step(lr)
        theirs.step()
        theirs.zero_grad()


@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.9, 0.0), (0.9, 0.1), (0.0, 0.1)])
def test_the_local_optimizer_is_torchs(momentum, weight_decay):
    """Two visits of three steps, on a network whose kernels lie channels-last."""
    nets = beside_torchs(lambda: ResNet(1, 4, 1, 3, "gn1", Pan()))
    ours = LocalSGD(nets[0].parameters, momentum)
    for visit in range(2):
        theirs = torch.optim.SGD(nets[1].parameters, momentum=momentum, weight_decay=weight_decay, fused=True)
        with ours.visit(weight_decay):
            assert ours.momenta() == []
            take_steps(nets, ours, theirs, visit, (1, 8, 8))
        assert torch.equal(nets[0].weights, nets[1].weights)
        found = [theirs.state[p].get("momentum_buffer") for p in nets[1].parameters] if momentum else []
        assert all(torch.equal(one, other) for one, other in zip(ours.momenta(), found, strict=True))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_of_fading_layers_are_torchs_up_to_rounding(weight_decay):
    nets = beside_torchs(small_net)
    ours = LocalSGD(nets[0].parameters, 0.9, [m for m in nets[0].net.modules() if isinstance(m, Linear)])
    for visit in range(2):
        theirs = torch.optim.SGD(nets[1].parameters, momentum=0.9, weight_decay=weight_decay, fused=True)
        with ours.visit(weight_decay):
            take_steps(nets, ours, theirs, visit, (1, 4, 4))
        torch.testing.assert_close(nets[0].weights, nets[1].weights)
        found = [theirs.state[p]["momentum_buffer"] for p in nets[1].parameters]
        torch.testing.assert_close(ours.momenta(), found)
        for momentum in ours.momenta():
            momentum.fill_(torch.nan)  # the next visit must not read what a diverged one left


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_trains_as_without(name, monkeypatch):
    """Some add to gradients: what they add must fade, too."""

    def weights(fading_weights: int) -> torch.Tensor:
        monkeypatch.setattr(local, "FADING_WEIGHTS", fading_weights)
        trainer = trainer_of(small_net(), Training(warmup="none", momentum=0.9, weight_decay=0.01))
        trainer.net.weights.mul_(20)  # initial weights are so small that hardly anything moves
        assert fading_layers(trainer) == (2 if fading_weights == 1 else 0)
        clients = clients_of(random_images(40), [10, 30])
        algorithm = ALGORITHMS[name](**({"mu": 0.5} if name == "fedprox" else {}))
        *_, last = federate(algorithm, trainer, clients, Scene(K=2, R=1.0, E=2, H=3, B=8), seed=0)
        return last.server.weights

    torch.testing.assert_close(weights(1), weights(10**9), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("changes", [{"clip": 1.0}, {"momentum": 0.0}])
def test_what_needs_the_gradient_itself_has_it(changes, all_layers_fade):
    assert fading_layers(trainer_of(small_net(), Training(warmup="none", **changes))) == 0


def test_outside_a_visit_gradients_are_autograds(all_layers_fade):
    trainer = trainer_of(small_net())
    batches = list(clients_of(random_images(16), [16]).batches(0, 1, E=1, B=8))
    trainer.fit(batches, 1, lambda x, y: F.cross_entropy(trainer.net(x), y), adjust_gradient=lambda: None)
    assert all(p.grad is None for p in trainer.net.parameters)
    x, y = batches[0]
    found = torch.autograd.grad(F.cross_entropy(trainer.net(x), y), trainer.net.parameters)
    assert all(gradient.abs().sum() > 0 for gradient in found)


def test_an_error_in_a_visit_leaves_nothing_behind(all_layers_fade):
    trainer = trainer_of(small_net())

    def torn():
        yield from clients_of(random_images(8), [8]).batches(0, 1, E=1, B=8)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.fit(torn(), 1, lambda x, y: F.cross_entropy(trainer.net(x), y), adjust_gradient=lambda: None)
    assert all(p.grad is None for p in trainer.net.parameters)
    assert all(m.grad_momentum is None for m in trainer.net.net.modules() if isinstance(m, Linear))


def test_the_papers_perceptron_has_three_such_layers_and_small_ones_none():
    large, small = (experiment("pan=off", f"model.width={width}").network() for width in (1024, 64))
    assert fading_layers(trainer_of(large)) == 3
    assert fading_layers(trainer_of(small)) == 0
