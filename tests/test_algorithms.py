"""Algorithms compared with results by hand, with each other, and with autograd."""

from itertools import product

import pytest
import torch
from quadratic import PLAIN_SGD, quadratic_rounds
from torch.nn import functional as F

from conftest import clients_of, experiment, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import ALGORITHMS, ClientContext, FedAvg, FedOpt, FedProx, Moon, Scaffold, ServerState
from fedpan_exp.algorithms.fedopt import Yogi
from fedpan_exp.federation import ClientStates, Scene
from fedpan_exp.models import Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.resnet import ResNet
from fedpan_exp.training import Training


def test_fedavg_by_hand():
    # Round 1: 0 -> 1 -> 1.5 and 0 -> 3 -> 4.5. Round 2: 3 -> 2.5 -> 2.25 and 3 -> 4.5 -> 5.25.
    assert quadratic_rounds(FedAvg(), steps=2, rounds=2) == pytest.approx([3.0, 3.75])


def test_fedprox_by_hand():
    # mu=1. Round 1: 0 -> 1 and 0 -> 3, where loss and prox gradients cancel. Round 2: 2 -> 2 and 2 -> 4.
    assert quadratic_rounds(FedProx(mu=1.0), steps=2, rounds=2) == pytest.approx([2.0, 3.0])


def test_fedopt_by_hand():
    # SGD, lr 0.5, momentum 0.5. Client means: 3 and 3.375; server steps: 0.5 * 3 and 0.5 * (0.5 * 3 + 1.875).
    algorithm = FedOpt(server_optimizer="sgd", server_lr=0.5, momentum=0.5)
    assert quadratic_rounds(algorithm, steps=2, rounds=2) == pytest.approx([1.5, 3.1875])


def test_scaffold_by_hand():
    # Curvatures 1 and 2, lr 0.25. Round 1: 0 -> 0.5 -> 0.875 and 0 -> 3 -> 4.5; controls -1.75 and -9, mean -5.375.
    # Round 2, corrected by -3.625 and 3.625: 2.6875 -> 3.421875 -> 3.97265625 and 2.6875 -> 3.4375 -> 3.8125.
    slow = Training(lr=0.25, momentum=0.0, warmup="none")
    rounds = quadratic_rounds(Scaffold(), steps=2, rounds=2, curvatures=(1, 2), training=slow)
    assert rounds == pytest.approx([2.6875, 3.892578125])
    half_step = quadratic_rounds(Scaffold(server_lr=0.5), steps=2, rounds=1, curvatures=(1, 2), training=slow)
    assert half_step == pytest.approx([2.6875 / 2])


def test_adam_and_yogi_follow_their_formulas():
    w, g = torch.tensor([1.0, -2.0]), torch.tensor([0.3, -0.5])
    for optimizer, second in ((torch.optim.Adam, None), (Yogi, 1e-6 + 0.01 * (g * g))):
        weights = w.clone()
        weights.grad = g.clone()
        optimizer([weights], lr=0.1, betas=(0.9, 0.99), eps=1e-3).step()
        step = g / (g.abs() + 1e-3) if second is None else 0.1 * g / (second.sqrt() + 1e-3)
        torch.testing.assert_close(weights, w - 0.1 * step)


@pytest.mark.parametrize("optimizer", ["adam", "yogi"])
def test_adaptive_server_optimizers_reach_the_optimum(optimizer):
    algorithm = FedOpt(server_optimizer=optimizer, server_lr=0.3)
    assert quadratic_rounds(algorithm, steps=2, rounds=150)[-1] == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize(
    "training", [PLAIN_SGD, Training(lr=0.05, momentum=0.5, warmup="steps")], ids=["plain", "momentum and warm-up"]
)
def test_scaffold_reaches_the_joint_optimum_where_fedavg_does_not(training):
    """Curvatures 1 and 2: the joint optimum is (1 * 2 + 2 * 6) / 3; FedAvg converges to another point."""
    joint = 14 / 3
    avg = quadratic_rounds(FedAvg(), steps=20, rounds=300, curvatures=(1, 2), training=training)[-1]
    scaffold = quadratic_rounds(Scaffold(), steps=20, rounds=300, curvatures=(1, 2), training=training)[-1]
    assert abs(avg - joint) > 0.3
    assert scaffold == pytest.approx(joint, abs=0.01)


def small_run(algorithm: FedAvg, momentum: float = 0.9, rounds: int = 3, norm: str = "bn", states=None, R: float = 0.5):
    trainer = trainer_of(ResNet(1, 4, 1, 3, norm, Pan("mul", A=0.2)), Training(momentum=momentum, warmup="none"))
    clients = clients_of(random_images(48, shape=(1, 8, 8)), [12] * 4)
    scene = Scene(K=4, R=R, E=2, H=rounds, B=4)
    return run_rounds(algorithm, trainer, clients, scene, states=states)


def last_server(*args, **kwargs) -> ServerState:
    *_, last = small_run(*args, **kwargs)
    return last.server


def test_algorithms_without_their_extra_terms_equal_fedavg_bit_for_bit():
    fedavg = last_server(FedAvg())
    for algorithm in (FedProx(mu=0.0), Moon(mu=0.0)):
        assert last_server(algorithm).weights.equal(fedavg.weights)
    for algorithm in (FedProx(mu=0.5), FedProx(mu=10.0, variant="authors"), Moon(mu=5.0), Scaffold()):
        assert not last_server(algorithm).weights.equal(fedavg.weights)
    plain_server = FedOpt(server_optimizer="sgd", server_lr=1.0, momentum=0.0)
    torch.testing.assert_close(last_server(plain_server, rounds=1).weights, last_server(FedAvg(), rounds=1).weights)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_first_round_of_scaffold_equals_fedavg(momentum):
    first, fedavg = (last_server(algorithm, momentum, rounds=1) for algorithm in (Scaffold(), FedAvg()))
    assert first.weights.equal(fedavg.weights)


def test_with_full_participation_the_server_control_is_the_mean_of_the_client_controls():
    states = ClientStates()
    for round_ in small_run(Scaffold(), momentum=0.0, states=states, R=1.0):
        controls = torch.stack([states[k]["control"] for k in states.clients()])
        assert len(controls) == 4
        torch.testing.assert_close(round_.server.state["control"], controls.mean(0), rtol=1e-4, atol=1e-5)


def test_only_canonical_scaffold_scales_the_control_update_by_the_cohort_fraction():
    canonical, authors = (
        last_server(Scaffold(variant=variant), rounds=1).state["control"] for variant in ("canonical", "authors")
    )
    torch.testing.assert_close(canonical * 2, authors)  # 2 of 4 clients took part


@pytest.mark.parametrize("variant", ["canonical", "authors"])
def test_the_prox_gradient_matches_autograd(variant):
    net = trainer_of(MLP(16, 8, 2, 3, Pan())).net
    start = net.weights + torch.randn_like(net.weights)
    client = ClientContext(ServerState(start, net.buffers, 1), {}, 1)
    algorithm = FedProx(mu=0.3, variant=variant)
    algorithm.init_client(net, client)
    for parameter in net.parameters:
        parameter.grad = torch.zeros_like(parameter)
    algorithm.adjust_gradient(net, client)
    ours = [
        gradient + algorithm.extra_weight_decay * w.detach()
        for gradient, w in zip(net.gradients(), net.parameters, strict=True)
    ]
    pairs = list(zip(net.parameters, net.views(start), strict=True))
    if variant == "canonical":
        term = 0.3 / 2 * sum((w - s).square().sum() for w, s in pairs)
    else:
        term = 0.3 * sum(F.smooth_l1_loss(w, s) for w, s in pairs)
    for gradient, expected in zip(ours, torch.autograd.grad(term, net.parameters), strict=True):
        torch.testing.assert_close(gradient, expected)


def test_clipping_bounds_the_whole_prox_gradient():
    bound = Training(lr=0.5, momentum=0.0, warmup="none", clip=1.0)
    free = Training(lr=0.5, momentum=0.0, warmup="none", clip=1e6)
    assert quadratic_rounds(FedProx(mu=1.0), steps=2, rounds=2, training=free) == pytest.approx([2.0, 3.0])
    # Both coordinates have the same gradient, so one of norm 1 moves each by 0.5 / sqrt(2) per step.
    assert quadratic_rounds(FedProx(mu=1.0), steps=1, rounds=1, training=bound) == pytest.approx([0.5 / 2**0.5])


def test_controls_do_not_include_batch_norm_statistics():
    states = ClientStates()
    server = last_server(Scaffold(), states=states)
    assert server.buffers.numel() > 0
    assert server.state["control"].numel() == server.weights.numel()
    controls = [states[k]["control"] for k in states.clients()]
    assert controls
    assert all(control.numel() == server.weights.numel() for control in controls)


def test_the_prox_term_does_not_change_batch_norm_statistics():
    """After one local step, the statistics equal those of FedAvg even for a large mu."""

    def statistics(algorithm):
        trainer = trainer_of(ResNet(1, 4, 1, 3, "bn", Pan()))
        clients = clients_of(random_images(24, shape=(1, 8, 8)), [12, 12])
        (only,) = run_rounds(algorithm, trainer, clients, Scene(K=2, R=1.0, E=1, H=1, B=12))
        return only.server.buffers

    plain = statistics(FedAvg())
    for variant in ("canonical", "authors"):
        assert statistics(FedProx(mu=10.0, variant=variant)).equal(plain)


def test_reference_models_of_moon_change_no_statistics_and_get_no_gradients():
    trainer = trainer_of(ResNet(1, 4, 1, 3, "bn", Pan()))
    net = trainer.net
    algorithm = Moon()
    client = ClientContext(ServerState(net.weights.clone(), net.buffers.clone(), 1), {}, 4)
    algorithm.init_client(net, client)
    x = torch.rand(4, 1, 8, 8)
    net.net.eval()
    expected = net.net.features(x)
    before = net.buffers.clone()
    for reference in ("global", "previous"):
        features = client.scratch[reference](x)
        assert not features.requires_grad
        torch.testing.assert_close(features, expected)  # in eval mode
    assert net.buffers.equal(before)
    net.net.train()
    algorithm.loss(net, x, torch.zeros(4).long(), client)
    after_loss = net.buffers.clone()
    net.load(client.server.weights, client.server.buffers)
    net(x)
    assert net.buffers.equal(after_loss)  # one pass in train mode, as in FedAvg


def test_the_contrastive_loss_of_moon_matches_the_paper():
    trainer = trainer_of(MLP(16, 8, 2, 3, Pan()))
    net, x, y = trainer.net, torch.rand(5, 1, 4, 4), torch.zeros(5).long()
    server = ServerState(torch.randn_like(net.weights), net.buffers, 1)
    client = ClientContext(server, {"weights": torch.randn_like(net.weights), "buffers": net.buffers}, 5)
    algorithm = Moon(mu=2.0, temperature=0.7)
    algorithm.init_client(net, client)
    z, z_global, z_previous = net.net.features(x), client.scratch["global"](x), client.scratch["previous"](x)
    pull, push = ((F.cosine_similarity(z, other) / 0.7).exp() for other in (z_global, z_previous))
    expected = F.cross_entropy(net(x), y) - 2.0 * (pull / (pull + push)).log().mean()
    torch.testing.assert_close(algorithm.loss(net, x, y, client), expected)


@pytest.mark.parametrize("algorithm", [Scaffold(), Moon()])
def test_client_states_on_disk_give_the_same_run(algorithm, tmp_path):
    memory, disk = ClientStates(), ClientStates(tmp_path / "clients", on_disk=True)
    expected = last_server(algorithm, rounds=4, states=memory)
    assert last_server(algorithm, rounds=4, states=disk).weights.equal(expected.weights)
    assert disk.clients() == memory.clients()
    for k in memory.clients():
        assert all(disk[k][name].equal(vector) for name, vector in memory[k].items())
    assert len(list((tmp_path / "clients").iterdir())) == len(memory.clients())  # older versions are deleted


def test_scaffold_sends_twice_as_much_as_fedavg():
    costs = {}
    for name, algorithm in (("fedavg", FedAvg()), ("scaffold", Scaffold()), ("moon", Moon()), ("fedopt", FedOpt())):
        *_, last = small_run(algorithm, norm="gn1")  # without BatchNorm, only weights are sent
        costs[name] = (last.update.stats.up_bytes, last.update.stats.down_bytes)
    assert costs["scaffold"] == tuple(2 * cost for cost in costs["fedavg"])
    assert costs["moon"] == costs["fedopt"] == costs["fedavg"]


FAMILIES = ("mlp", "vgg9", "resnet20 model.width=8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model"),
    product(sorted({*ALGORITHMS} - {"fed2", "feddf", "fedma"}), FAMILIES),  # those have tests of their own
)
def test_every_algorithm_works_with_every_model_family(name, model, command):
    pan = "off" if name == "matched" else "add"
    little_work = ("scale=smoke", "dataset.samples=300", "fl_scene.E=1", "fl_scene.B=64")
    overrides = (f"algorithm={name}", *f"model={model}".split(), "fl_scene.local_test=0.2", f"pan={pan}")
    result = command(*little_work, *overrides)
    assert result.code == 0, result.err


def test_scaffold_trains_without_momentum_by_default():
    assert experiment("algorithm=scaffold").training.momentum == 0.0
    assert experiment("algorithm=scaffold", "training.momentum=0.5").training.momentum == 0.5
    assert experiment("algorithm=fedprox").training.momentum == 0.9


def test_fidelity_authors_selects_their_variants():
    for name in ("fedprox", "scaffold"):
        assert experiment(f"algorithm={name}").algorithm.variant == "canonical"
        assert experiment(f"algorithm={name}", "fidelity=authors").algorithm.variant == "authors"
        explicit = experiment(f"algorithm={name}", "fidelity=authors", "algorithm.variant=canonical")
        assert explicit.algorithm.variant == "canonical"


def test_client_memory_does_not_change_the_identity_of_a_run(command):
    overrides = ("algorithm=scaffold", "scale=smoke", "model.width=8")
    first = command(*overrides)
    second = command(*overrides, "fl_scene.client_memory=disk")  # the same experiment
    assert "already done" in second.out
    third = command(*overrides, "fl_scene.client_memory=disk", "rerun=true")
    assert third.code == 0, third.err
    assert first.runs == third.runs
    assert not (third.runs[0] / "clients").exists()
