"""The round loop compared with independent computations."""

import copy

import lightning
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from conftest import PLAIN_PIXELS, clients_of, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import ClientUpdate, FedAvg, WeightedSum
from fedpan_exp.algorithms.stats import Drift
from fedpan_exp.federation import Scene
from fedpan_exp.models import Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.resnet import ResNet
from fedpan_exp.system.errors import Diverged
from fedpan_exp.training import Classifier, FlatNet, Training


def small_net(pan: Pan | None = None) -> MLP:
    return MLP(16, 8, 2, 3, pan or Pan("mul", A=0.3))


def scene(**changes) -> Scene:
    return Scene(**{"K": 2, "R": 1.0, "E": 1, "H": 1, "B": 8, **changes})


def run(trainer, clients, scene, algorithm=None):
    *_, last = run_rounds(algorithm or FedAvg(), trainer, clients, scene)
    return last


def plain_client(net: nn.Module, batches, momentum=0.9, lr=0.05) -> list[torch.Tensor]:
    """SGD with momentum, written by hand."""
    velocity = [torch.zeros_like(p) for p in net.parameters()]
    for x, y in batches:
        net.zero_grad()
        F.cross_entropy(net(x), y).backward()
        with torch.no_grad():
            for p, v in zip(net.parameters(), velocity, strict=True):
                v.mul_(momentum).add_(p.grad)
                p.sub_(lr * v)
    return [p.detach().clone() for p in net.parameters()]


@pytest.mark.parametrize(("averaging", "weights"), [("uniform", (0.5, 0.5)), ("by_samples", (0.4, 0.6))])
def test_two_clients_with_two_steps_match_plain_sgd(averaging, weights):
    clients = clients_of(random_images(25), [10, 15])  # two batches of at most 8 each
    trainer = trainer_of(small_net())
    start = copy.deepcopy(trainer.net.net)
    last = run(trainer, clients, scene(averaging=averaging))
    locals_ = [plain_client(copy.deepcopy(start), clients.batches(k, 1, E=1, B=8)) for k in (0, 1)]
    for i, (ours, first, second) in enumerate(zip(trainer.net.views(last.server.weights), *locals_, strict=True)):
        torch.testing.assert_close(ours, weights[0] * first + weights[1] * second, msg=f"parameter {i}")
    assert [fit.steps for fit in last.update.stats.fits] == [2, 2]


def test_one_client_in_every_round_equals_centralized_training_with_lightning():
    """Each round has a new optimizer, so that one round of E epochs takes the same steps as one fit of E epochs."""
    clients = clients_of(random_images(40), [40])
    settings = Training(warmup="steps", warmup_length=6)
    trainer = trainer_of(small_net(), settings)
    module = Classifier(copy.deepcopy(trainer.net.net), settings)
    batches = list(clients.batches(0, 1, E=3, B=8))
    last = run(trainer, clients, scene(K=1, E=3))

    lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(module, torch.utils.data.DataLoader(batches, batch_size=None, shuffle=False))
    for ours, theirs in zip(trainer.net.views(last.server.weights), module.net.parameters(), strict=True):
        assert torch.equal(ours, theirs.detach())
    constant = torch.ones(1)
    optimizer = torch.optim.SGD([constant], lr=1.0, momentum=settings.momentum)
    for step in range(15):
        optimizer.param_groups[0]["lr"] = settings.lr_at(step)
        constant.grad = torch.ones(1)
        optimizer.step()
    assert last.update.stats.fits[0].accumulated_lr == pytest.approx(1 - constant.item(), rel=1e-5)


def test_clip_and_weight_decay_reach_the_optimizer():
    clients = clients_of(random_images(8), [8])
    free, bound, decayed = (
        trainer_of(small_net(), Training(warmup="none", momentum=0.0, **changes))
        for changes in ({}, {"clip": 1e-3}, {"weight_decay": 0.5})
    )
    start = free.net.weights.clone()
    moves = [run(trainer, clients, scene(K=1)).server.weights - start for trainer in (free, bound, decayed)]
    assert moves[1].norm().item() == pytest.approx(1e-3 * 0.05, rel=1e-3)
    torch.testing.assert_close(moves[2], moves[0] - 0.05 * 0.5 * start)


def test_warm_up_by_rounds_and_by_steps():
    rounds = Training(lr=0.1, warmup="rounds", warmup_length=4)
    assert [rounds.lr_at(step, round_idx) for round_idx in (1, 2, 8) for step in (0, 9)] == pytest.approx(
        [0.025, 0.025, 0.05, 0.05, 0.1, 0.1]
    )
    steps = Training(lr=0.1, warmup="steps", warmup_length=4)
    assert [steps.lr_at(step, round_idx=3) for step in (0, 1, 3, 9)] == pytest.approx([0.025, 0.05, 0.1, 0.1])


def test_the_weighted_sum_consumes_updates_one_by_one():
    vectors = torch.randn(4, 10)
    updates = (
        ClientUpdate(v, v[:2], weight, {"extra": v}) for v, weight in zip(vectors, (1.0, 2.0, 3.0, 4.0), strict=True)
    )
    first = next(updates)
    total = WeightedSum(like=first)
    for update in (first, *updates):
        total.add(update)
    mean = total.mean()
    expected = (vectors * torch.tensor([0.1, 0.2, 0.3, 0.4])[:, None]).sum(0)
    torch.testing.assert_close(mean.weights, expected)
    torch.testing.assert_close(mean.buffers, expected[:2])
    torch.testing.assert_close(mean.extras["extra"], expected)
    assert mean.clients == 4


def batch_norm_setup(**changes):
    images = random_images(24, shape=(1, 8, 8))
    trainer = trainer_of(ResNet(1, 4, 1, 3, "bn", Pan()))
    initial = trainer.net.buffers.clone()
    return trainer, initial, clients_of(images, [12, 12]), scene(H=2, B=4, **changes)


def test_batch_norm_statistics_are_averaged_or_kept_or_reset():
    servers = {}
    for choice in ("average", "keep", "reset"):
        trainer, initial, clients, setting = batch_norm_setup(bn_statistics=choice)
        servers[choice] = run(trainer, clients, setting).server
    assert torch.equal(servers["keep"].buffers, initial)
    assert not torch.equal(servers["average"].buffers, initial)
    assert not torch.equal(servers["average"].buffers, servers["reset"].buffers)
    # Training uses the statistics of the batch, so the choice matters only in evaluation.
    for choice in ("keep", "reset"):
        assert torch.equal(servers[choice].weights, servers["average"].weights)


def test_averaged_statistics_are_the_mean_over_clients():
    trainer, _, clients, setting = batch_norm_setup()
    setting.H = 1

    class Spy(FedAvg):
        needs_models = True

        def aggregate(self, server, update):
            super().aggregate(server, update)
            assert len(update.models) == 2
            torch.testing.assert_close(server.buffers, torch.stack([model.buffers for model in update.models]).mean(0))
            server.state["checked"] = torch.ones(1)

    assert "checked" in run(trainer, clients, setting, Spy()).server.state


def test_a_last_batch_of_one_sample_does_not_break_batch_norm():
    trainer = trainer_of(ResNet(1, 4, 1, 3, "bn", Pan()))
    clients = clients_of(random_images(9, shape=(1, 4, 4)), [9])
    last = run(trainer, clients, scene(K=1, B=4))
    assert last.update.stats.fits[0].steps == 2


def test_a_loss_that_is_not_finite_ends_the_run_and_names_round_and_client():
    trainer = trainer_of(small_net(), Training(lr=1e20, warmup="none"))
    clients = clients_of(random_images(64), [32, 32])
    with pytest.raises(Diverged, match=r"in round \d+ at client \d.*training.lr \(now 1e\+20\).*training.clip"):
        run(trainer, clients, scene(H=3, E=3))


def test_evaluation_counts_samples_not_batches(monkeypatch):
    trainer = trainer_of(small_net())
    images = random_images(2 * 300 + 7)
    monkeypatch.setattr("fedpan_exp.training.local.LARGEST_EVALUATION_BATCH", 300)
    result = trainer.evaluate(images)
    logits = trainer.net.net.eval()(PLAIN_PIXELS.normalize(images.x))
    assert result.accuracy == pytest.approx((logits.argmax(1) == images.y).double().mean().item())
    assert result.loss == pytest.approx(F.cross_entropy(logits, images.y).item(), rel=1e-5)


@pytest.mark.parametrize("bn_statistics", ["average", "reset"])
def test_local_accuracy_before_and_after_training(bn_statistics):
    """On held-out samples, evaluate the global model before and the client's own model after local training."""

    class Spy(FedAvg):
        def finish_client(self, net, client):
            after.append(accuracy(net.net, clients.test_images(len(after))))
            return {}

    def accuracy(net, images):
        with torch.no_grad():
            return (net.eval()(PLAIN_PIXELS.normalize(images.x)).argmax(1) == images.y).double().mean().item()

    after: list[float] = []
    clients = clients_of(random_images(80, shape=(1, 8, 8)), [80], local_test=0.5)
    trainer = trainer_of(ResNet(1, 4, 1, 3, "bn", Pan()))
    setting = scene(K=1, H=2, E=3, local_test=0.5, bn_statistics=bn_statistics)
    rounds = run_rounds(Spy(), trainer, clients, setting)
    first = next(rounds)
    trainer.net.load(first.server.weights, first.server.buffers)
    global_accuracy = accuracy(trainer.net.net, clients.test_images(0))
    after.clear()
    metrics = next(rounds).metrics()
    assert metrics["local/pre_acc"] == pytest.approx(global_accuracy)
    assert metrics["local/post_acc"] == pytest.approx(after[0])
    plain = run(trainer_of(small_net()), clients_of(random_images(20), [10, 10]), scene())
    assert "local/pre_acc" not in plain.metrics()


def test_bytes_and_samples_of_a_round_are_counted():
    trainer = trainer_of(ResNet(1, 4, 1, 3, "bn", Pan("mul", A=0.1)))
    net = trainer.net
    last = run(trainer, clients_of(random_images(24, shape=(1, 8, 8)), [12, 12]), scene())
    sent = [t for t in net.net.state_dict().values() if t.is_floating_point()]
    size = 4 * sum(t.numel() for t in sent)
    metrics = last.metrics()
    assert metrics["comm/up_bytes"] == metrics["comm/down_bytes"] == 2 * size
    assert metrics["train/samples"] == 24


def test_flat_vectors_share_storage_with_the_network():
    net = ResNet(1, 4, 1, 3, "bn", Pan())
    state = copy.deepcopy(net.state_dict())
    flat = FlatNet(net)
    assert all(torch.equal(tensor, state[name]) for name, tensor in net.state_dict().items())
    flat.weights.zero_()
    flat.buffers.fill_(7.0)
    assert all(not p.any() for p in net.parameters())
    statistics = [tensor for name, tensor in net.state_dict().items() if "running" in name]
    assert statistics
    assert all((tensor == 7).all() for tensor in statistics)
    for view, parameter in zip(flat.views(torch.arange(flat.weights.numel()).float()), net.parameters(), strict=True):
        parameter.data.copy_(view)
    assert torch.equal(flat.weights, torch.arange(flat.weights.numel()).float())


def test_drift_is_the_root_mean_square_distance_from_the_mean():
    deltas = torch.randn(5, 1000)
    drift = Drift()
    for delta in deltas:
        drift.add(delta.clone())
    expected = (deltas - deltas.mean(0)).norm(dim=1).square().mean().sqrt()
    assert drift.value() == pytest.approx(expected.item(), rel=1e-4)
