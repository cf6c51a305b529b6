"""The fast local optimizer takes the same steps as torch's; fused layers do so up to rounding."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from conftest import clients_of, experiment, make_algorithm, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import ALGORITHMS
from fedpan_exp.federation import Scene
from fedpan_exp.models import Network, Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.network import Shape
from fedpan_exp.models.resnet import ResNet
from fedpan_exp.training import FlatNet, LocalTrainer, Training, fast_sgd
from fedpan_exp.training.fast_sgd import FusedMomentumLinear, LocalSGD, fuse_large_linears


def small_net() -> MLP:
    return MLP(16, 8, 2, 3, Pan("mul", A=0.3))


@pytest.fixture
def fuse_all_layers(monkeypatch):
    monkeypatch.setattr(fast_sgd, "MIN_FUSED_WEIGHTS", 1)


def fused_layers(trainer: LocalTrainer) -> int:
    with trainer._optimizer.reset(weight_decay=0.0):
        layers = [m for m in trainer.net.net.modules() if isinstance(m, FusedMomentumLinear)]
        return sum(layer.grad_momentum is not None for layer in layers)


def twins(make_net: Callable[[], Network]) -> tuple[FlatNet, FlatNet]:
    """Two networks with the same weights: one for our optimizer, one for torch's."""
    torch.manual_seed(0)  # with some weights, rounding changes which side of a ReLU a neuron is on
    ours, theirs = FlatNet(make_net()), FlatNet(make_net())
    theirs.load(ours.weights, ours.buffers)
    return ours, theirs


def take_steps(
    nets: tuple[FlatNet, FlatNet], ours: LocalSGD, theirs: torch.optim.SGD, client: int, shape: Shape
) -> None:
    for step in range(3):
        images = random_images(8, shape=shape, seed=10 * client + step)
        for net in nets:
            F.cross_entropy(net(images.x.float()), images.y).backward()
        lr = theirs.param_groups[0]["lr"] = 0.1 * (step + 1)
        ours.step(lr)
        theirs.step()
        theirs.zero_grad()


@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.9, 0.0), (0.9, 0.1), (0.0, 0.1)])
def test_the_local_optimizer_matches_torchs(momentum, weight_decay):
    """Two clients with three steps each, on a network whose kernels are stored channels-last."""
    nets = twins(lambda: ResNet(1, 4, 1, 3, "gn1", Pan()))
    ours = LocalSGD(nets[0].parameters, momentum)
    for client in range(2):
        theirs = torch.optim.SGD(nets[1].parameters, momentum=momentum, weight_decay=weight_decay, fused=True)
        with ours.reset(weight_decay):
            assert ours.momenta() == []
            take_steps(nets, ours, theirs, client, (1, 8, 8))
        assert torch.equal(nets[0].weights, nets[1].weights)
        expected = [theirs.state[p].get("momentum_buffer") for p in nets[1].parameters] if momentum else []
        assert all(torch.equal(one, other) for one, other in zip(ours.momenta(), expected, strict=True))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_of_fused_layers_match_torchs_up_to_rounding(weight_decay, fuse_all_layers):
    nets = twins(small_net)
    ours = LocalSGD(nets[0].parameters, 0.9, fuse_large_linears(nets[0].net))
    for client in range(2):
        theirs = torch.optim.SGD(nets[1].parameters, momentum=0.9, weight_decay=weight_decay, fused=True)
        with ours.reset(weight_decay):
            take_steps(nets, ours, theirs, client, (1, 4, 4))
        torch.testing.assert_close(nets[0].weights, nets[1].weights)
        expected = [theirs.state[p]["momentum_buffer"] for p in nets[1].parameters]
        torch.testing.assert_close(ours.momenta(), expected)
        for momentum in ours.momenta():
            momentum.fill_(torch.nan)  # the next client must not read what a diverged one left


@pytest.mark.parametrize("name", sorted(ALGORITHMS.keys() - {"fedma"}))  # a round of which trains some layers only
def test_every_algorithm_gives_the_same_weights_without_fused_layers(name, monkeypatch):
    """Some algorithms add to gradients: the momentum must include that."""

    def weights(fused_weights: int) -> torch.Tensor:
        monkeypatch.setattr(fast_sgd, "MIN_FUSED_WEIGHTS", fused_weights)
        trainer = trainer_of(small_net(), Training(warmup="none", momentum=0.9, weight_decay=0.01))
        trainer.net.weights.mul_(20)  # the initial weights are too small to train in a few steps
        assert fused_layers(trainer) == (3 if fused_weights == 1 else 0)
        clients = clients_of(random_images(40), [10, 30])
        algorithm = make_algorithm(name, **({"mu": 0.5} if name == "fedprox" else {}))
        *_, last = run_rounds(algorithm, trainer, clients, Scene(K=2, R=1.0, E=2, H=3, B=8))
        return last.server.weights

    torch.testing.assert_close(weights(1), weights(10**9), atol=1e-5, rtol=1e-4)


def test_layers_are_not_fused_without_momentum(fuse_all_layers):
    assert fused_layers(trainer_of(small_net(), Training(warmup="none", momentum=0.0))) == 0


def fit_weights(clip: float | None, fused_weights: int, monkeypatch: pytest.MonkeyPatch, adjusts=False) -> torch.Tensor:
    monkeypatch.setattr(fast_sgd, "MIN_FUSED_WEIGHTS", fused_weights)
    trainer = trainer_of(small_net(), Training(warmup="none", momentum=0.9, weight_decay=0.01, clip=clip))
    trainer.net.weights.mul_(20)
    batches = list(clients_of(random_images(40), [40]).batches(0, 1, E=2, B=8))
    adjust = (lambda: torch._foreach_add_(trainer.net.gradients(), 0.01)) if adjusts else None
    trainer.fit(batches, 1, lambda x, y: F.cross_entropy(trainer.net(x), y), adjust)
    return trainer.net.weights.clone()


@pytest.mark.parametrize("adjusts", [False, True])
def test_fused_layers_are_clipped_like_others(adjusts, monkeypatch):
    """Those of an algorithm that changes gradients are not fused: their norm must include the change."""
    free, clipped, fused = (fit_weights(*args, monkeypatch, adjusts) for args in [(None, 1), (0.05, 10**9), (0.05, 1)])
    torch.testing.assert_close(fused, clipped, atol=1e-5, rtol=1e-4)
    assert (free - clipped).abs().max() > 0.01


@pytest.mark.parametrize("fused_weights", [1, 10**9])
def test_a_clip_above_every_norm_changes_no_bit(fused_weights, monkeypatch):
    free, clipped = (fit_weights(clip, fused_weights, monkeypatch) for clip in (None, 1e4))
    assert torch.equal(free, clipped)


def test_the_norm_of_a_fused_layers_gradient_is_found_without_the_gradient():
    layer, x = FusedMomentumLinear(5, 4), torch.randn(3, 5)
    layer.grad_momentum, layer.keeps_factors = 0.0, True
    layer(x).square().sum().backward()
    plain = torch.nn.Linear(5, 4)
    plain.load_state_dict(layer.state_dict())
    plain(x).square().sum().backward()
    torch.testing.assert_close(layer.gradient_norm(), plain.weight.grad.norm())
    assert layer.gradient_norm_bound() >= plain.weight.grad.norm()


def test_outside_of_fit_autograd_works_as_usual(fuse_all_layers):
    trainer = trainer_of(small_net())
    batches = list(clients_of(random_images(16), [16]).batches(0, 1, E=1, B=8))
    trainer.fit(batches, 1, lambda x, y: F.cross_entropy(trainer.net(x), y))
    assert all(p.grad is None for p in trainer.net.parameters)
    x, y = batches[0]
    gradients = torch.autograd.grad(F.cross_entropy(trainer.net(x), y), trainer.net.parameters)
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


def test_an_interrupted_fit_leaves_no_gradients_behind(fuse_all_layers):
    trainer = trainer_of(small_net())

    def interrupted_batches():
        yield from clients_of(random_images(8), [8]).batches(0, 1, E=1, B=8)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.fit(interrupted_batches(), 1, lambda x, y: F.cross_entropy(trainer.net(x), y))
    assert all(p.grad is None for p in trainer.net.parameters)
    assert all(m.grad_momentum is None for m in trainer.net.net.modules() if isinstance(m, FusedMomentumLinear))


def test_the_papers_mlp_has_three_fused_layers_and_a_small_one_none():
    large, small = (experiment("pan=off", f"model.width={width}").network() for width in (1024, 64))
    assert fused_layers(trainer_of(large)) == 3
    assert fused_layers(trainer_of(small)) == 0


@pytest.mark.parametrize("name", sorted(ALGORITHMS.keys() - {"fedma"}))  # a round of which trains some layers only
@pytest.mark.parametrize("clip", [None, 0.05])
def test_training_fast_false_uses_torch_optim_and_takes_the_same_steps(name, clip, fuse_all_layers):
    def weights(fast: bool) -> torch.Tensor:
        trainer = trainer_of(small_net(), Training(warmup="steps", momentum=0.9, clip=clip, fast=fast))
        assert isinstance(trainer._optimizer, LocalSGD) == fast
        assert not fast or fused_layers(trainer)
        trainer.net.weights.mul_(20)
        clients = clients_of(random_images(40), [10, 30])
        *_, last = run_rounds(make_algorithm(name), trainer, clients, Scene(K=2, R=1.0, E=2, H=3, B=8))
        assert len(trainer.momenta()) == len(trainer.net.parameters)
        return last.server.weights

    # FedDF's Adam turns the rounding of a gradient near 0 into a step.
    torch.testing.assert_close(weights(True), weights(False), atol=5e-5, rtol=1e-4)
