"""FedNova, FedDyn, FedRS, FedPHP and FedAvgM: closed forms, limits, refusals."""

from collections.abc import Iterator
from itertools import islice

import pytest
import torch
from quadratic import OPTIMA, quadratic_rounds, quadratic_run
from torch.nn import functional as F

from conftest import clients_of, experiment, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import (
    ClientContext,
    ClientUpdate,
    FedAvg,
    FedDyn,
    FedNova,
    FedOpt,
    FedPHP,
    FedProx,
    FedRS,
    ServerState,
    WeightedSum,
)
from fedpan_exp.federation import (
    Checkpoints,
    CheckpointSettings,
    ClientStates,
    FederatedTask,
    Round,
    Scene,
    federate,
    make_executor,
)
from fedpan_exp.models import Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.resnet import ResNet
from fedpan_exp.training import FlatNet, FlatParameters, Training

JOINT = 14 / 3  # of the two clients, with curvatures (1, 2) or with weights (1, 2)


def small_task(algorithm: FedAvg, rounds=2, momentum=0.9, norm=None, **scene) -> FederatedTask:
    """Three clients of different sizes; client 0 has no sample of class 2. The local models are kept."""
    net = ResNet(1, 4, 1, 3, norm, Pan()) if norm else MLP(64, 8, 2, 3, Pan())
    trainer = trainer_of(net, Training(lr=0.05, momentum=momentum, warmup="none"))
    images = random_images(27, shape=(1, 8, 8))
    images.y[:6] %= 2
    setting = Scene(**{"K": 3, "R": 1.0, "E": 2, "H": rounds, "B": 4, **scene})
    clients = clients_of(images, [6, 12, 9], setting.local_test)
    return FederatedTask(algorithm, trainer, clients, setting, seed=0, snapshot_at=lambda _: True)


def small_run(algorithm: FedAvg, states: ClientStates | None = None, **task) -> Iterator[Round]:
    task = small_task(algorithm, **task)
    return federate(task, make_executor(task, 1, states))


def last_server(*args, **kwargs) -> ServerState:
    *_, last = small_run(*args, **kwargs)
    return last.server


@pytest.mark.parametrize("algorithm", [FedNova(), FedDyn(), FedRS(), FedPHP()], ids=lambda value: type(value).__name__)
def test_a_resumed_run_gives_the_same_weights_bit_for_bit(tmp_path, algorithm):
    settings = {"rounds": 4, "R": 0.67, "norm": "bn", "local_test": 0.2}
    states = ClientStates(tmp_path / "straight")
    *_, expected = small_run(algorithm, states, **settings)

    early = ClientStates(tmp_path / "checkpoint/clients")
    *_, second = islice(small_run(algorithm, early, **settings), 2)
    Checkpoints(tmp_path / "checkpoint", "run", CheckpointSettings()).save(2, second.server, early, records=0)
    resumed = ClientStates(tmp_path / "checkpoint/clients")
    checkpoint = Checkpoints(tmp_path / "checkpoint", "run", CheckpointSettings()).restore_latest(resumed, 0)
    task = small_task(algorithm, **settings)
    *_, last = federate(task, make_executor(task, 1, resumed), checkpoint)

    assert last.index == 4
    assert last.server.weights.equal(expected.server.weights)
    assert last.server.buffers.equal(expected.server.buffers)
    assert last.update.stats.local_accuracies == expected.update.stats.local_accuracies
    for k in states.clients():
        assert all(resumed[k][name].equal(vector) for name, vector in states[k].items())


# FedNova: clients of one and two samples take one and two steps


@pytest.mark.parametrize(
    ("training", "averaging", "expected"),
    [
        # T = 0.5 and 1, changes 1 and 4.5: 0.75 * (1 / 0.5 + 4.5 / 1) / 2
        (Training(lr=0.5, momentum=0.0, warmup="none"), "uniform", [2.4375, 3.275390625]),
        (Training(lr=0.5, momentum=0.0, warmup="none"), "by_samples", [3.05555556, 3.98919753]),
        (Training(lr=0.25, momentum=0.5, warmup="none"), "uniform", [1.61875, 2.56470703125]),  # T = 0.25, 0.625
    ],
)
def test_fednova_by_hand(training, averaging, expected):
    """Closed form: x + (sum p T) (sum p (y - x) / T). FedAvg begins with 2.75."""
    args = {"steps": 1, "rounds": 2, "training": training, "samples": (1, 2), "averaging": averaging}
    assert quadratic_rounds(FedNova(), **args) == pytest.approx(expected, rel=1e-5)
    assert quadratic_rounds(FedAvg(), **args)[0] != pytest.approx(expected[0], rel=1e-2)


def test_fednova_stays_near_the_joint_optimum_where_fedavg_goes_to_the_client_with_more_steps():
    """Closed form: with 1 and 20 steps a client moves by (t - x) (1 - (1 - lr)^steps). The joint optimum is 4."""
    lr, steps = 0.001, (1, 20)
    moves = [1 - (1 - lr) ** n for n in steps]
    slow = Training(lr=lr, momentum=0.0, warmup="none")
    for algorithm, pulls, end in (
        (FedNova(), [move / (lr * n) for move, n in zip(moves, steps, strict=True)], 3.9905),
        (FedAvg(), moves, 5.8078),
    ):
        fixed = sum(pull * t for pull, t in zip(pulls, OPTIMA, strict=True)) / sum(pulls)
        assert fixed == pytest.approx(end, abs=1e-4)
        (after,) = quadratic_rounds(algorithm, steps=1, rounds=1, training=slow, samples=steps, start=fixed)
        assert after == pytest.approx(fixed, abs=2e-6)


def test_fednova_equals_fedavg_if_all_clients_take_the_same_steps():
    scene = {"B": 12, "rounds": 1}  # one batch per epoch
    fedavg, fednova = last_server(FedAvg(), **scene), last_server(FedNova(), **scene)
    torch.testing.assert_close(fednova.weights, fedavg.weights, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(last_server(FedNova(), rounds=1).weights, last_server(FedAvg(), rounds=1).weights)


def test_fednova_sends_two_numbers_more_than_fedavg():
    (fedavg,), (fednova,) = small_run(FedAvg(), rounds=1), small_run(FedNova(), rounds=1)
    assert fednova.update.stats.up_bytes == fedavg.update.stats.up_bytes + 3 * 8
    assert fednova.update.stats.down_bytes == fedavg.update.stats.down_bytes


def test_fednova_keeps_step_sizes_in_32_bits_at_least():
    """In the 8 bits of bf16-true the step size of the formula would be wrong by a percent."""
    net = FlatNet(MLP(4, 2, 1, 2, Pan()).bfloat16())
    client = ClientContext(ServerState(net.weights, net.buffers, clients=1), {}, samples=1, accumulated_lr=1.1523)
    sent = FedNova().finish_client(net, client)["accumulated_lr"]
    assert sent.dtype == torch.float32
    assert sent[1] / sent[0] ** 2 == pytest.approx(1.0, rel=1e-6)


def test_fednova_averages_batch_norm_statistics_by_weight_over_step_size():
    """A mean with the weights 1 / steps, not an extrapolation as for the weights."""
    (fednova,) = small_run(FedNova(), rounds=1, norm="bn", momentum=0.0)
    steps = torch.tensor([fit.steps for fit in fednova.update.stats.fits])
    buffers = torch.stack([model.buffers for model in fednova.update.models])
    expected = (buffers / steps[:, None]).sum(0) / (1 / steps).sum()
    torch.testing.assert_close(fednova.server.buffers, expected, rtol=1e-4, atol=1e-6)


def test_the_sums_of_fednova_do_not_depend_on_the_order_of_clients():
    """Its weights are rounded: their products with 32-bit weights, and the sums of those, are then exact in 64 bits."""
    server = ServerState(torch.zeros(1), torch.zeros(0), 5)
    steps = [0.3, 0.7, 1.1, 1.3, 1.7]
    clients = [ClientContext(server, {}, 1, accumulated_lr=T) for T in steps]
    models = 1 + torch.rand(5, 1000, generator=torch.Generator().manual_seed(0))
    rounded = [FedNova().aggregation_weight(client, 1.0) for client in clients]
    assert rounded == pytest.approx([1 / T for T in steps], rel=2**-16)
    for weights, is_exact in ((rounded, True), ([1 / T for T in steps], False)):
        updates = [ClientUpdate(model, torch.zeros(0), w) for model, w in zip(models, weights, strict=True)]
        forward, backward = WeightedSum(updates[0]), WeightedSum(updates[0])
        for one, other in zip(updates, reversed(updates), strict=True):
            forward.add(one)
            backward.add(other)
        assert forward.vectors[0].equal(backward.vectors[0]) == is_exact


# FedDyn


@pytest.mark.parametrize(
    ("alpha", "lr", "curvatures", "servers", "means"),
    [
        (1.0, 0.5, (1, 1), [4.0, 4.0, 4.0], [2.0, 3.0, 3.5]),
        (0.5, 0.5, (1, 1), [5.0, 4.6875, 4.23828125], [2.5, 3.59375, 3.916015625]),
        (1.0, 0.25, (1, 2), [4.5, 5.296875, 5.1005859375], [2.25, 3.7734375, 4.43701171875]),
    ],
)
def test_feddyn_by_hand(alpha, lr, curvatures, servers, means):
    """Closed form. In the first round of all clients, x1 = 2 mean - x0 for every alpha."""
    algorithm, training = FedDyn(alpha=alpha), Training(lr=lr, momentum=0.0, warmup="none")
    rounds = list(quadratic_run(algorithm, steps=2, rounds=3, curvatures=curvatures, training=training))
    assert quadratic_rounds(algorithm, 2, 3, curvatures, training) == pytest.approx(servers)
    assert [round_.update.weights[0].item() for round_ in rounds] == pytest.approx(means)


@pytest.mark.parametrize(("lr", "momentum"), [(0.25, 0.0), (0.1, 0.5)])
def test_feddyn_reaches_the_joint_optimum(lr, momentum):
    training = Training(lr=lr, momentum=momentum, warmup="none")
    rounds = quadratic_rounds(FedDyn(alpha=1.0), steps=10, rounds=20, curvatures=(1, 2), training=training)
    assert rounds[-1] == pytest.approx(JOINT, abs=1e-4)


def test_feddyn_reaches_the_optimum_of_the_weighted_objective():
    rounds = quadratic_rounds(FedDyn(alpha=1.0), steps=5, rounds=20, samples=(1, 2), averaging="by_samples")
    assert rounds[-1] == pytest.approx(JOINT, abs=1e-3)


def test_the_first_local_training_of_feddyn_is_that_of_fedprox():
    (feddyn,), (fedprox,) = small_run(FedDyn(alpha=0.3), rounds=1), small_run(FedProx(mu=0.3), rounds=1)
    torch.testing.assert_close(feddyn.update.weights, fedprox.update.weights)


def test_the_drift_of_feddyn_is_the_mean_of_all_clients_gradients():
    """Always h = mean_k g_k over all K clients, those that have not taken part included."""
    states, algorithm = ClientStates(), FedDyn(alpha=0.1)
    for round_ in small_run(algorithm, states, rounds=4, R=0.67):
        gradients = sum(states[k]["gradient"] for k in states.clients()) / 3
        torch.testing.assert_close(round_.server.state["drift"], -gradients / 0.1, rtol=1e-4, atol=1e-6)


def test_feddyn_evaluates_the_server_or_the_mean():
    server = ServerState(torch.tensor([5.0]), torch.zeros(0), 2, {"drift": torch.tensor([2.0])})
    assert FedDyn().evaluated_weights(server).tolist() == [5.0]
    assert FedDyn(evaluate="mean").evaluated_weights(server).tolist() == [3.0]


# FedRS


def client_with(counts: list[int], net: FlatNet) -> ClientContext:
    server = ServerState(net.weights.clone(), net.buffers.clone(), 1)
    return ClientContext(server, {}, sum(counts), label_counts=torch.tensor(counts))


def scale_of(algorithm: FedRS, counts: list[int]) -> list[float]:
    net = trainer_of(MLP(16, 8, 2, len(counts), Pan())).net
    client = client_with(counts, net)
    algorithm.init_client(net, client)
    return client.scratch["scale"].tolist()


def test_fedrs_scales_the_logits_of_missing_classes():
    assert scale_of(FedRS(alpha=0.25), [8, 0, 2]) == [1.0, 0.25, 1.0]
    assert scale_of(FedRS(alpha=0.25, variant="authors"), [8, 0, 2]) == [1.0, 0.25, 0.4375]  # 0.25 + 0.75 / 4
    for variant in ("canonical", "authors"):
        assert scale_of(FedRS(alpha=0.3, variant=variant), [4, 4, 4]) == [1.0, 1.0, 1.0]


def test_fedrs_with_alpha_1_equals_fedavg_bit_for_bit():
    fedavg = last_server(FedAvg()).weights
    for variant in ("canonical", "authors"):
        assert last_server(FedRS(alpha=1.0, variant=variant)).weights.equal(fedavg)
    assert not last_server(FedRS(alpha=0.5)).weights.equal(fedavg)


def test_fedrs_with_alpha_0_does_not_move_the_head_of_missing_classes():
    trainer = trainer_of(MLP(64, 8, 2, 3, Pan()))
    images = random_images(15, shape=(1, 8, 8))
    images.y[:12] %= 2
    images.y[12:] = 2  # which no client has
    head = trainer.net.net.head
    before = head.weight.detach().clone(), head.bias.detach().clone()
    (_,) = run_rounds(FedRS(alpha=0.0), trainer, clients_of(images, [12]), Scene(K=1, R=1.0, E=2, H=1, B=4))
    for start, end in zip(before, (head.weight, head.bias), strict=True):
        assert end[2].equal(start[2])
        assert not end[:2].equal(start[:2])


def test_the_gradient_of_fedrs_at_the_head():
    """Closed form: d loss / d w_c = a_c (softmax_c - [c = y]) h."""
    net, x, y = trainer_of(MLP(16, 8, 2, 3, Pan())).net, torch.rand(1, 1, 4, 4), torch.tensor([0])
    net.weights.normal_(generator=torch.Generator().manual_seed(0))
    algorithm, client = FedRS(alpha=0.5), client_with([3, 0, 1], net)
    algorithm.init_client(net, client)
    algorithm.loss(net, x, y, client).backward()
    features, logits = net.features_and_logits(x)
    scale = torch.tensor([1.0, 0.5, 1.0])
    error = (scale * logits).softmax(1) - F.one_hot(y, 3)
    torch.testing.assert_close(net.net.head.weight.grad, (scale * error).T @ features)


# FedPHP


def test_fedphp_keeps_a_moving_average_of_local_models():
    """The weights of the personal model in it: 0, mu / 2, mu, mu over ramp_rounds=2."""
    states, algorithm, expected = ClientStates(), FedPHP(mu=0.8, ramp_rounds=2.0), None
    for n, round_ in enumerate(small_run(algorithm, states, rounds=4)):
        mu = 0.8 * min(1, n / 2)
        local = round_.update.models[round_.cohort.index(0)].weights
        expected = local if expected is None else mu * expected + (1 - mu) * local
        torch.testing.assert_close(states[0]["weights"], expected)
        assert states[0]["rounds"] == n + 1


def test_the_personal_model_of_fedphp_is_tested_and_the_local_one_is_averaged():
    class Spy(FedPHP):
        def personal_model(self, net, client):
            model = super().personal_model(net, client)
            assert model.weights is client.state["weights"]
            return FlatParameters(torch.zeros_like(model.weights), model.buffers)  # always predicts class 0

    settings = {"rounds": 1, "local_test": 0.34, "norm": "bn"}
    (spied,), (plain,) = small_run(Spy(), **settings), small_run(FedPHP(), **settings)
    assert spied.server.weights.equal(plain.server.weights)
    assert spied.server.buffers.equal(plain.server.buffers)
    clients = small_task(FedPHP(), **settings).clients
    for k, local in zip(spied.cohort, spied.update.stats.local_accuracies, strict=True):
        assert local.after == (clients.test_images(k).y == 0).float().mean().item()


def test_fedphp_without_distillation_trains_the_global_model_of_fedavg():
    fedavg = last_server(FedAvg()).weights
    assert last_server(FedPHP(distillation=0.0)).weights.equal(fedavg)
    assert not last_server(FedPHP(distillation=0.1)).weights.equal(fedavg)


def test_the_loss_of_fedphp_matches_the_paper():
    net, x, y = trainer_of(MLP(16, 8, 2, 3, Pan())).net, torch.rand(5, 1, 4, 4), torch.zeros(5).long()
    personal = torch.randn_like(net.weights)
    client = client_with([5, 0, 0], net)
    client.state = {"weights": personal, "buffers": net.buffers, "rounds": torch.tensor(1.0)}
    algorithm = FedPHP(distillation=0.3, temperature=2.0)
    algorithm.init_client(net, client)
    loss = algorithm.loss(net, x, y, client)
    logits, start = net(x), net.weights.clone()
    net.weights.copy_(personal)
    soft = (net(x) / 2).softmax(1)
    net.weights.copy_(start)
    expected = 0.7 * F.cross_entropy(logits, y) - 0.3 * (soft * logits.log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(loss, expected)


def test_the_ramp_of_fedphp_is_the_expected_number_of_rounds_of_a_client():
    assert experiment("algorithm=fedphp", "fl_scene.R=0.2", "fl_scene.H=40").algorithm.ramp_rounds == 8.0


# FedAvgM


def test_fedavgm_is_fedopt_with_momentum():
    """The means are 3 and 3.75: x1 = 3, x2 = 3 + 0.9 * 3 + 0.75."""
    algorithm = experiment("algorithm=fedavgm").algorithm
    assert (type(algorithm), algorithm.server_optimizer) == (FedOpt, "sgd")
    assert quadratic_rounds(algorithm, steps=2, rounds=2) == pytest.approx([3.0, 6.45])
