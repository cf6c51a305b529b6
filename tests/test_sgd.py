"""The fast local optimizer and products take the same steps as torch's, and clip as torch does."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from conftest import clients_of, make_algorithm, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import ALGORITHMS
from fedpan_exp.federation import Scene
from fedpan_exp.models import Network, Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.network import Shape
from fedpan_exp.models.resnet import ResNet
from fedpan_exp.training import FlatNet, Training, onednn
from fedpan_exp.training.fast_sgd import LocalSGD, clip_gradients
from fedpan_exp.training.onednn import OneDNNLinear, joint_bound, use_onednn


def small_net() -> MLP:
    return MLP(16, 8, 2, 3, Pan("mul", A=0.3))


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


def fit_weights(clip: float | None, fast: bool = True, adjusts: bool = False) -> torch.Tensor:
    torch.manual_seed(0)
    trainer = trainer_of(small_net(), Training(warmup="none", momentum=0.9, weight_decay=0.01, clip=clip, fast=fast))
    trainer.net.weights.mul_(20)  # the initial weights are too small to train in a few steps
    batches = list(clients_of(random_images(40), [40]).batches(0, 1, E=2, B=8))
    adjust = (lambda: torch._foreach_add_(trainer.net.gradients(), 0.01)) if adjusts else None
    trainer.fit(batches, 1, lambda x, y: F.cross_entropy(trainer.net(x), y), adjust)
    return trainer.net.weights.clone()


@pytest.mark.parametrize("adjusts", [False, True])
def test_gradients_are_clipped_as_torch_does(adjusts):
    """After an algorithm has changed them: the norm must include the change."""
    free, ours, torchs = (
        fit_weights(clip, fast, adjusts) for clip, fast in [(None, True), (0.05, True), (0.05, False)]
    )
    torch.testing.assert_close(ours, torchs, atol=1e-5, rtol=1e-4)
    assert (free - ours).abs().max() > 0.01


def test_a_clip_above_every_norm_changes_no_bit():
    assert torch.equal(fit_weights(None), fit_weights(1e4))


def test_outside_of_fit_autograd_works_as_usual():
    trainer = trainer_of(small_net())
    batches = list(clients_of(random_images(16), [16]).batches(0, 1, E=1, B=8))
    trainer.fit(batches, 1, lambda x, y: F.cross_entropy(trainer.net(x), y))
    assert all(p.grad is None for p in trainer.net.parameters)
    x, y = batches[0]
    gradients = torch.autograd.grad(F.cross_entropy(trainer.net(x), y), trainer.net.parameters)
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


def test_an_interrupted_fit_leaves_no_gradients_behind():
    trainer = trainer_of(small_net())

    def interrupted_batches():
        yield from clients_of(random_images(8), [8]).batches(0, 1, E=1, B=8)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.fit(interrupted_batches(), 1, lambda x, y: F.cross_entropy(trainer.net(x), y))
    assert all(p.grad is None for p in trainer.net.parameters)


@pytest.mark.parametrize("name", sorted(ALGORITHMS.keys() - {"fedma"}))  # a round of which trains some layers only
@pytest.mark.parametrize("clip", [None, 0.05])
def test_training_fast_false_uses_torch_optim_and_takes_the_same_steps(name, clip):
    def weights(fast: bool) -> torch.Tensor:
        trainer = trainer_of(small_net(), Training(warmup="steps", momentum=0.9, clip=clip, fast=fast))
        assert isinstance(trainer._optimizer, LocalSGD) == fast
        trainer.net.weights.mul_(20)
        clients = clients_of(random_images(40), [10, 30])
        *_, last = run_rounds(make_algorithm(name), trainer, clients, Scene(K=2, R=1.0, E=2, H=3, B=8))
        assert len(trainer.momenta()) == len(trainer.net.parameters)
        return last.server.weights

    # FedDF's Adam turns the rounding of a gradient near 0 into a step.
    torch.testing.assert_close(weights(True), weights(False), atol=5e-5, rtol=1e-4)


@pytest.fixture
def with_onednn(monkeypatch):
    """As on an AMD processor with AVX-512."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this build of torch has no oneDNN")
    monkeypatch.setattr(onednn, "onednn_is_faster", lambda: True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("trains", [("x", "weight"), ("x",), ("weight",)])
def test_products_of_onednn_are_those_of_torch(with_onednn, bias, trains):
    torch.manual_seed(0)
    layer = nn.Linear(300, 256, bias)
    layer.requires_grad_("weight" in trains)
    ours = copy.deepcopy(layer)
    use_onednn(ours)
    assert isinstance(ours, OneDNNLinear)
    outputs, gradients = [], []
    for each in (ours, layer):
        x = torch.randn(7, 300, generator=torch.Generator().manual_seed(1), requires_grad="x" in trains)
        outputs.append(each(x))
        outputs[-1].square().sum().backward()
        gradients.append([tensor.grad for tensor in (x, each.weight, each.bias) if tensor is not None])
        with torch.no_grad():
            torch.testing.assert_close(each(x), outputs[-1])
    torch.testing.assert_close(*outputs)
    for one, other in zip(*gradients, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_only_wide_layers_in_32_bits_use_onednn(with_onednn):
    net = nn.Sequential(nn.Linear(256, 256), nn.Linear(256, 255), nn.Conv2d(1, 1, 3))
    use_onednn(net)
    assert [type(layer) for layer in net] == [OneDNNLinear, nn.Linear, nn.Conv2d]
    x = torch.randn(3, 256, dtype=torch.float64)
    assert torch.equal(net[0].double()(x), F.linear(x, net[0].weight, net[0].bias))
    sequences = torch.randn(2, 3, 256)
    assert torch.equal(net[0].float()(sequences), F.linear(sequences, net[0].weight, net[0].bias))


@pytest.fixture
def wide_layer(with_onednn):
    torch.manual_seed(0)
    layer = nn.Linear(300, 256)
    (wide,) = use_onednn(layer)
    return wide


X = torch.linspace(-1, 1, 8 * 300).reshape(8, 300)


def gradients_of(layer: OneDNNLinear) -> list[torch.Tensor]:
    return [layer.weight.grad, layer.bias.grad]


def test_a_wide_layer_bounds_the_norm_of_its_gradient(wide_layer):
    assert joint_bound([torch.ones(3)], [wide_layer]) == math.inf  # before backward
    wide_layer(X).square().sum().backward()
    exact = torch.cat([gradient.flatten() for gradient in gradients_of(wide_layer)]).norm().item()
    assert exact < joint_bound(gradients_of(wide_layer), [wide_layer]) < 3 * exact
    before = wide_layer.weight.grad.clone()
    clip_gradients(gradients_of(wide_layer), 3 * exact, [wide_layer])  # the bound decides
    clip_gradients(gradients_of(wide_layer), 1.001 * exact, [wide_layer])  # the norm decides
    assert torch.equal(wide_layer.weight.grad, before)
    clip_gradients(gradients_of(wide_layer), exact / 2, [wide_layer])
    torch.testing.assert_close(wide_layer.weight.grad, before / 2)


@pytest.mark.parametrize(
    "loss",
    [
        lambda layer: layer(X).sum() + layer.weight.square().sum(),
        lambda layer: layer.weight.square().sum() + layer(X).sum(),
        lambda layer: layer(X).sum() + layer(2 * X).sum(),
        lambda layer: layer(X).sum() + layer(X.view(1, 8, 300)).sum(),
        lambda layer: layer(X.view(1, 8, 300)).sum() + layer(X).sum(),
    ],
)
def test_a_gradient_that_is_no_single_product_has_no_bound(wide_layer, loss):
    loss(wide_layer).backward()
    assert joint_bound(gradients_of(wide_layer), [wide_layer]) == math.inf


@pytest.mark.parametrize(
    "change",
    [
        lambda gradients: torch._foreach_add_(gradients, gradients, alpha=1e6),  # as an algorithm's correction
        lambda gradients: [gradient.mul_(1e6) for gradient in gradients],
        lambda gradients: gradients[0].view(-1).index_fill_(0, torch.arange(9), 1e6),
    ],
)
def test_a_changed_gradient_has_no_bound(wide_layer, change):
    wide_layer(X).sum().backward()
    with torch.no_grad():
        change(gradients_of(wide_layer))
    assert joint_bound(gradients_of(wide_layer), [wide_layer]) == math.inf


def test_a_gradient_with_cleared_entries_keeps_its_bound(with_onednn):
    net = FlatNet(MLP(300, 256, 1, 3, Pan()))
    (wide,) = use_onednn(net.net)
    frozen = torch.arange(len(net.weights)) % 2 == 0
    with net.freezing(frozen):
        F.cross_entropy(net(X.view(8, 1, 1, 300)), torch.zeros(8, dtype=torch.long)).backward()
        net.clear_frozen_gradients()
    assert not wide.weight.grad[net.named_views(frozen)["body.fc1.weight"]].any()
    exact = torch.cat([gradient.flatten() for gradient in net.gradients()]).norm().item()
    assert exact < joint_bound(net.gradients(), [wide]) < 5 * exact


def test_a_wide_layer_can_be_copied_after_training(wide_layer):
    wide_layer(X.clone().requires_grad_()).sum().backward()
    assert torch.equal(copy.deepcopy(wide_layer).weight, wide_layer.weight)


def test_onednn_is_part_of_fast_training_and_takes_the_same_steps(with_onednn):
    def weights(fast: bool) -> torch.Tensor:
        trainer = trainer_of(MLP(16, 300, 2, 3, Pan("mul", A=0.3)), Training(warmup="steps", momentum=0.9, fast=fast))
        assert isinstance(trainer.net.net.body.fc2, OneDNNLinear) == fast
        clients = clients_of(random_images(40), [10, 30])
        *_, last = run_rounds(make_algorithm("fedavg"), trainer, clients, Scene(K=2, R=1.0, E=2, H=3, B=8))
        return last.server.weights

    torch.testing.assert_close(weights(True), weights(False), atol=1e-5, rtol=1e-4)
