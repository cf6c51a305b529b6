"""FedMA and matched averaging: what is frozen, matched, sent and resumed."""

import math
from collections.abc import Iterator

import pytest
import torch

from conftest import clients_of, experiment, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import ClientContext, FedAvg, FedMA, Matched, ServerState
from fedpan_exp.algorithms.fedma import average_head, by_group, layers_of
from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.shuffle import sample_permutations
from fedpan_exp.federation import Checkpoints, CheckpointSettings, ClientStates, FederatedTask, Round, Scene, federate
from fedpan_exp.federation.executors import make_executor
from fedpan_exp.models import Network, Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.vgg import VGG
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.atomic_io import read_json, read_lines
from fedpan_exp.system.errors import ConfigError, Diverged
from fedpan_exp.system.rng import rng
from fedpan_exp.training import FlatNet, FlatParameters, Training, classification_loss

LAYERS = 3


def mlp(spare: int = 0) -> Network:
    return MLP(16, 8, 2, 3, Pan(), spare=spare)


def vgg(spare: int = 0) -> Network:
    return VGG((1, 8, 8), ["4", "M", "6", "M"], [8], 3, "none", Pan(), spare=spare)


def make_small_task(algorithm: FedAvg, passes: int = 2, R: float = 1.0, K: int = 4, spare: int = 0) -> FederatedTask:
    trainer = trainer_of(mlp(spare), Training(lr=0.1, warmup="none"))
    clients = clients_of(random_images(12 * K), [12] * K)
    scene = Scene(K=K, R=R, E=2, H=passes * LAYERS, B=4)
    return FederatedTask(algorithm, trainer, clients, scene, seed=0)


def small_run(*args, ranks: int = 1, states: ClientStates | None = None, **kwargs) -> Iterator[Round]:
    task = make_small_task(*args, **kwargs)
    return federate(task, make_executor(task, ranks, states))


def last_server(*args, **kwargs) -> ServerState:
    *_, last = small_run(*args, **kwargs)
    return last.server


def rows(net: FlatNet, weights: torch.Tensor, layer: int) -> list[torch.Tensor]:
    return [net.named_views(weights)[name] for name in layers_of(net)[layer].tensors]


@pytest.mark.parametrize(("gamma", "spare"), [(1.0, 0), (7.0, 3)])
def test_matched_layers_come_back_from_the_clients_bit_for_bit(gamma, spare):
    net, matched = FlatNet(mlp(spare)), None
    for round_ in small_run(FedMA(gamma=gamma), spare=spare):
        phase = (round_.index - 1) % LAYERS
        for model in round_.update.models:
            for layer in range(phase):
                for sent, back in zip(rows(net, matched, layer), rows(net, model.weights, layer), strict=True):
                    assert sent.equal(back)
            if phase:
                assert not rows(net, matched, phase)[0].equal(rows(net, model.weights, phase)[0])
        matched = round_.server.state["matched"].clone()


def test_the_global_model_changes_at_the_end_of_a_pass_only():
    seen = [make_small_task(FedMA()).trainer.net.weights.clone()]
    for round_ in small_run(FedMA()):
        assert round_.server.weights.equal(seen[-1]) == (round_.index % LAYERS != 0)
        if round_.index % LAYERS == 0:
            assert round_.server.weights.equal(round_.server.state["matched"])
            seen.append(round_.server.weights.clone())


def test_a_pass_of_one_client_returns_its_network():
    *_, last = small_run(FedMA(averaging="mean"), K=1, passes=1)
    assert last.server.weights.equal(last.update.models[0].weights)


def test_of_copies_the_posterior_shrinks_hidden_layers_by_the_prior():
    """Clients with the same data and start train the same network: J / (J + 1) of each layer that is matched."""
    images = random_images(12)
    images = type(images)(images.x.repeat(3, 1, 1, 1), images.y.repeat(3))
    net = FlatNet(mlp())
    server = {}
    for averaging in ("mean", "map"):
        trainer = trainer_of(mlp(), Training(lr=0.1, warmup="none"))
        scene = Scene(K=3, R=1.0, E=1, H=1, B=12)  # one batch: its order does not matter
        (only,) = run_rounds(FedMA(averaging=averaging, init="common"), trainer, clients_of(images, [12] * 3), scene)
        server[averaging] = rows(net, only.server.state["matched"], 0)
    for mean, posterior in zip(server["mean"], server["map"], strict=True):
        torch.testing.assert_close(posterior, mean * 3 / 4)


def test_a_class_of_the_head_belongs_to_the_clients_that_have_it():
    heads = torch.arange(24.0).view(2, 3, 4)
    counts = [torch.tensor([5, 0]), torch.tensor([0, 7])]  # nobody has the last class
    mean = average_head(list(heads), counts)
    assert mean[0].equal(heads[0, 0].double())
    assert mean[1].equal(heads[1, 1].double())
    assert mean[2].equal(heads[:, 2].double().mean(0))
    shared = average_head(list(heads), [torch.tensor([1, 1, 1]), torch.tensor([3, 1, 0])])
    torch.testing.assert_close(shared[0], (heads[0, 0] / 4 + heads[1, 0] * 3 / 4).double())


@pytest.mark.parametrize("make", [mlp, vgg])
def test_spare_neurons_change_neither_the_start_nor_the_training(make):
    x, y = torch.randn(12, 1, *((4, 4) if make is mlp else (8, 8)), generator=rng(0)), torch.arange(12) % 3
    outputs = []
    for spare in (0, 3):
        trainer = trainer_of(make(spare), Training(lr=0.2, weight_decay=1e-3, warmup="none"))
        net = trainer.net
        net.weights.mul_(20 if make is mlp else 1)  # the initial weights of linear layers are tiny
        start = net(x)
        trainer.fit([(x, y)] * 20, 1, lambda x, y, net=net: classification_loss(net(x), y), lambda: None)
        outputs.append((start, net(x)))
    for narrow, wide in zip(*outputs, strict=True):
        torch.testing.assert_close(narrow, wide, rtol=1e-4, atol=1e-5)
    assert (outputs[0][0] - outputs[0][1]).abs().max() > 0.01
    spec = net.net.permutation_spec
    for name, tensor in net.named_views(net.weights).items():
        for dim, axis in enumerate(spec.axes[name]):
            if axis:
                used = (spec.sizes[axis.group] - 3) * axis.block
                assert not tensor.narrow(dim, used, 3 * axis.block).any()


def test_layers_grow_as_far_as_there_are_spare_neurons():
    """A client makes its m-th new atom iff |w|^2 < 3 (2 ln(gamma / J) - 2 ln m + ln(J - 1)); here |w|^2 < 0.05."""
    new = [m for m in range(1, 9) if 3 * (2 * math.log(7 / 4) - 2 * math.log(m) + math.log(3)) > 0.05]
    assert last_server(FedMA(gamma=7.0), spare=12).state["sizes"].tolist() == [8 + 3 * len(new)] * 2
    assert last_server(FedMA(gamma=1.7), spare=12).state["sizes"].tolist() == [8, 8]  # 2 ln(1.7 / 4) + ln 3 < 0
    capped = last_server(FedMA(gamma=7.0), spare=3)
    assert capped.state["sizes"].tolist() == [11, 11]
    fixed = last_server(FedMA(gamma=1.0), spare=3)
    assert fixed.state["sizes"].tolist() == [8, 8]


def test_spare_neurons_change_nothing_at_fixed_width():
    narrow, wide = FlatNet(mlp()), FlatNet(mlp(3))
    plain, padded = last_server(FedMA()).weights, last_server(FedMA(), spare=3).weights
    for name, tensor in narrow.named_views(plain).items():
        part = wide.named_views(padded)[name][tuple(slice(size) for size in tensor.shape)]
        torch.testing.assert_close(part, tensor, rtol=1e-4, atol=1e-6)


def test_the_cohort_stays_for_a_pass():
    cohorts = [round_.cohort for round_ in small_run(FedMA(), passes=4, R=0.5)]
    fedavg = [round_.cohort for round_ in small_run(FedAvg(), passes=4, R=0.5)]
    assert cohorts == [fedavg[i // LAYERS] for i in range(4 * LAYERS)]
    assert len({tuple(cohort) for cohort in cohorts}) > 1


def test_a_client_that_was_not_there_starts_from_the_most_popular_neurons():
    *_, last = small_run(FedMA(gamma=7.0), passes=1, R=0.75, spare=9)
    net = FlatNet(mlp(9))
    (absent,) = {0, 1, 2, 3} - {*last.cohort}
    for orders in by_group(last.server.state["orders"], net.net.permutation_spec).values():
        has = orders >= 0
        assert has.sum(1).tolist() == [8] * 4
        popularity = has[last.cohort].sum(0)
        assert popularity[has[absent]].min() >= popularity[~has[absent]].max()


def test_only_what_a_client_lacks_is_sent():
    """16-8-8-3: layers of 136, 72 and 27 weights; a matched layer comes with the places of its 8 neurons."""
    stats = [round_.update.stats for round_ in small_run(FedMA(), K=2)]
    first_pass = [(136, 0), (72, 136 + 8), (27, 72 + 8)]
    second_pass = [(136, 27), *first_pass[1:]]
    sent = [(2 * 4 * up, 2 * 4 * down) for up, down in first_pass + second_pass]
    assert [(each.up_bytes, each.down_bytes) for each in stats] == sent
    common = next(small_run(FedMA(init="common"), K=2)).update.stats
    assert common.down_bytes == 2 * 4 * (136 + 72 + 27)


def test_the_head_is_trained_for_three_times_as_many_epochs():
    steps = [round_.update.stats.fits[0].steps for round_ in small_run(FedMA())]
    assert steps == [6, 6, 18, 6, 6, 18]


def test_the_head_takes_three_times_as_many_steps_if_their_number_is_given():
    task = make_small_task(FedMA(), passes=1)
    task.scene.steps = 5
    assert [round_.update.stats.fits[0].steps for round_ in federate(task)] == [5, 5, 15]


def test_weights_that_overflow_count_as_diverged():
    task = make_small_task(FedMA())
    task.scene.steps, task.trainer.settings.lr = 1, 1e30
    with pytest.raises(Diverged, match="in round 1 at client 3: the local weights overflow; try"):
        next(federate(task))


@pytest.mark.parametrize("init", ["own", "common"])
def test_clients_start_from_own_weights_once(init):
    *_, last = small_run(FedMA(init=init), passes=1)
    plain = last_server(FedMA(init="own" if init == "common" else "common"), passes=1)
    assert not last.server.weights.equal(plain.weights)


GROWING = {"R": 0.75, "spare": 4}


def test_two_ranks_give_the_same_numbers():
    one, two = (last_server(FedMA(gamma=7.0), ranks=ranks, **GROWING) for ranks in (1, 2))
    assert one.weights.equal(two.weights)
    assert all(one.state[name].equal(two.state[name]) for name in one.state)


@pytest.mark.parametrize("done", [3, 5])
def test_a_resumed_run_gives_the_same_numbers(tmp_path, done):
    states = ClientStates(tmp_path / "clients")
    checkpoints = Checkpoints(tmp_path, "run", CheckpointSettings())
    for round_ in small_run(FedMA(gamma=7.0), states=states, **GROWING):
        if round_.index == done:
            checkpoints.save(done, round_.server, states, 0)
    states = ClientStates(tmp_path / "clients")
    resume = Checkpoints(tmp_path, "run", CheckpointSettings()).restore_latest(states, 0)
    task = make_small_task(FedMA(gamma=7.0), **GROWING)
    *_, last = federate(task, make_executor(task, 2, states), resume)
    expected = last_server(FedMA(gamma=7.0), **GROWING)
    assert last.server.weights.equal(expected.weights)
    assert all(last.server.state[name].equal(expected.state[name]) for name in expected.state)


def test_independent_networks_are_averaged_by_one_pass_but_not_as_they_are():
    settings = experiment(
        *("algorithm=fedma", "dataset=digits", "model.width=32", "model.depth=2", "training.warmup=none"),
        *(f"fl_scene.{setting}" for setting in ("K=8", "R=1", "E=12", "H=3", "B=16", "alpha=1")),
    )
    task = make_task(settings, set_up(settings))
    rounds = federate(task, make_executor(task, 1))
    networks = next(rounds).update.models
    mean = FlatParameters(torch.stack([model.weights for model in networks]).mean(0), networks[0].buffers)
    task.trainer.net.load(*mean)
    assert task.trainer.evaluate(task.test).accuracy < 0.25
    *_, last = rounds
    assert last.test().accuracy > 0.7
    assert last.metrics()["fedma/neurons"] == 10


def test_only_whole_models_are_tested(command):
    (folder,) = command("scale=smoke", "algorithm=fedma", "model.width=16", "model.depth=1", "fl_scene.H=4").runs
    rounds = read_lines(folder / "metrics.jsonl")
    assert [line["round"] for line in rounds if "global/test_acc" in line] == [2, 4]  # a pass has two rounds
    tested = [line["global/test_acc"] for line in rounds if "global/test_acc" in line]
    assert read_json(folder / "summary.json")["summary/last5_acc"] == pytest.approx(sum(tested) / 2)


def test_matched_averaging_undoes_a_shuffle():
    trainer = trainer_of(mlp())
    net, spec = trainer.net, trainer.net.net.permutation_spec
    server = ServerState(net.weights.clone(), net.buffers.clone(), 1)
    shuffled = permute(net.net.state_dict(), spec, sample_permutations(spec, 1.0, rng(0)))
    net.net.load_state_dict(shuffled)
    assert not net.weights.equal(server.weights)
    assert Matched().finish_client(net, ClientContext(server, {}, 1)) == {}
    assert net.weights.equal(server.weights)


def test_matched_averaging_of_shuffled_clients_is_fedavg():
    class Shuffling(Matched):
        def finish_client(self, net, client):
            spec = net.net.permutation_spec
            net.net.load_state_dict(permute(net.net.state_dict(), spec, sample_permutations(spec, 1.0, rng(client.k))))
            return super().finish_client(net, client)

    torch.testing.assert_close(last_server(Shuffling()).weights, last_server(Matched()).weights)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("model=resnet20", "model must be mlp, or vgg with model.norm=none, for algorithm=fedma"),
        ("model=vgg9 model.norm=bn", "model must be mlp, or vgg with model.norm=none, for algorithm=fedma"),
        ("model=vgg9 model.norm=gn8", "model must be mlp, or vgg with model.norm=none, for algorithm=fedma"),
        ("model.depth=0", "model must be mlp, or vgg with model.norm=none, for algorithm=fedma"),
        ("pan=mul", "pan must be off for algorithm=fedma, which moves neurons to other positions, got mul with A=0.1"),
        (
            "fl_scene.H=30",
            "fl_scene.H must be a multiple of 4 for algorithm=fedma, one round per layer, got 30: pass 8",
        ),
        ("algorithm.gamma=7", "algorithm.gamma must be at most 1 for a network without spare neurons to grow into"),
        ("algorithm.gamma=0", "algorithm.gamma must be above 0, got 0"),
        ("algorithm.init=random", "algorithm.init must be own or common, got random"),
        ("algorithm.averaging=sum", "algorithm.averaging must be map or mean, got sum"),
        ("model=vgg9 model.spare=1 model.norm=bn", "model.spare must be 0 with PANs or norm layers"),
        ("model.spare=-1", "model.spare must be at least 0, got -1"),
        ("algorithm=fedavg pan=mul model.spare=2", "model.spare must be 0 with PANs or norm layers"),
        ("algorithm=matched pan=add", "pan must be off for algorithm=matched"),
        ("algorithm=matched model.head=etf", "model.head must be trained with algorithm=matched, which moves the"),
        (
            "fl_scene.averaging=by_samples",
            "fl_scene.averaging must be uniform with algorithm=fedma, whose matched neurons",
        ),
        ("model.head=frozen", "model.head must be trained with algorithm=fedma"),
        (
            "algorithm=matched training.decay_to=random training.weight_decay=0.1",
            "training.decay_to must be zero with algorithm=matched, which moves neurons away from their decay points",
        ),
        ("training.decay_to=random training.weight_decay=0.1", "training.decay_to must be zero with algorithm=fedma"),
    ],
)
def test_what_cannot_be_matched_is_rejected(overrides, message):
    with pytest.raises(ConfigError) as error:
        experiment("algorithm=fedma", *overrides.split())
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_the_defaults_fit_the_networks_of_the_paper():
    for overrides in (
        "dataset=mnist",
        "dataset=cifar10",
        "dataset=svhn",
        "dataset=mnist model.spare=9 algorithm.gamma=7",
    ):
        assert experiment("algorithm=fedma", *overrides.split()).pans_off
    assert experiment("algorithm=fedma", "fl_scene.H=8").fl_scene.H == 8
    assert experiment("algorithm=fedavg").fl_scene.H == 30
