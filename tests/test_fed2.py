"""Fed²: networks cut into groups of classes, and averaging by group."""

import pytest
import torch
from torch.nn import functional as F

from conftest import clients_of, experiment, make_algorithm, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import ClientContext, Fed2, FedAvg, ServerState
from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.federation import Round, Scene
from fedpan_exp.models import Network, Pan, count_weights, group_of, weight_groups
from fedpan_exp.models.block_layers import BlockConv2d, BlockLinear, Groups
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.network import he_init
from fedpan_exp.models.vgg import VGG
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.rng import rng
from fedpan_exp.training import FlatNet, LocalTrainer, Training

GROUPS = 4
SHARED, ZERO = GROUPS, GROUPS + 1  # in the place of a group
EVERY = [0, 1, 2, 3]


def small_mlp() -> MLP:
    return MLP(16, 12, 3, 4, Pan(), Groups(GROUPS, shared=1))


def small_vgg(norm: str = "none") -> VGG:
    """With five classes in four groups."""
    return VGG((1, 4, 4), ["4", "8", "M", "8"], [12], 5, norm, Pan(), Groups(GROUPS, shared=2))


def trainer(net: Network, **training) -> LocalTrainer:
    made = trainer_of(net, Training(lr=0.1, warmup="none", **training))
    he_init(net, rng(0, "weights"))  # the released code's initial weights hardly move in a few steps
    return made


def clients_with(*classes: list[int]) -> Clients:
    """One client per list of classes, with six samples of each."""
    labels = torch.tensor([label for labels in classes for label in labels for _ in range(6)])
    images = ImageTensors(random_images(len(labels)).x, labels)
    return clients_of(images, [6 * len(labels) for labels in classes])


def last_round(
    algorithm: FedAvg,
    clients: Clients,
    ranks: int = 1,
    made: LocalTrainer | None = None,
    H: int = 1,
    bn_statistics: str = "average",
) -> Round:
    """With the local models in `update.models`."""
    scene = Scene(K=len(clients), R=1.0, E=2, H=H, B=4, bn_statistics=bn_statistics)
    made = made or trainer(small_mlp(), weight_decay=0.1, momentum=0.9)
    *_, last = run_rounds(algorithm, made, clients, scene, ranks, snapshot_at=lambda round_idx: True)
    return last


def flat_groups(net: FlatNet) -> torch.Tensor:
    """The group of each weight."""
    groups = torch.empty(len(net.weights), dtype=torch.long)
    for view, of in zip(net.views(groups), weight_groups(net.net, net.net.permutation_spec, GROUPS), strict=True):
        view.copy_(of)
    return groups


OF_WEIGHTS = flat_groups(FlatNet(small_mlp()))


@pytest.mark.parametrize("net", [small_mlp(), small_vgg(), small_vgg("gn4"), small_vgg("bn")])
def test_the_logit_of_a_class_depends_on_no_weight_of_another_group(net):
    flat = trainer(net).net
    net.eval()
    x = torch.randn(50, 1, 4, 4, generator=rng(0, "input"))  # enough for every neuron to be active on some
    for c, group in enumerate(group_of(net.head.out_features, GROUPS).tolist()):
        gradients = torch.autograd.grad(net(x)[:, c].sum(), flat.parameters)
        vector = torch.zeros_like(flat.weights)
        torch._foreach_add_(flat.views(vector), gradients)
        assert flat_groups(flat)[vector != 0].unique().tolist() == [group, SHARED]


def test_block_layers_equal_group_kernels():
    conv, linear, x = BlockConv2d(6, 9, 3), BlockLinear(4, 6, 2), torch.randn(2, 6, 5, 5)
    kernels = torch.cat([conv.weight[3 * g : 3 * g + 3, 2 * g : 2 * g + 2] for g in range(3)])
    torch.testing.assert_close(conv(x), F.conv2d(x, kernels, conv.bias, padding=1, groups=3))
    blocks = torch.block_diag(linear.weight[:3, :2], linear.weight[3:, 2:])
    torch.testing.assert_close(linear(x[:, :4, 0, 0]), F.linear(x[:, :4, 0, 0], blocks, linear.bias))


@pytest.mark.parametrize("training", [{}, {"fast": False}, {"clip": 0.5}], ids=str)
@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold", "feddf", "fed2"])
def test_weights_between_groups_stay_0(name, training):
    made = trainer(small_mlp(), weight_decay=0.1, momentum=0.9, **training)
    before = made.net.weights.clone()
    after = last_round(make_algorithm(name), clients_with(EVERY, [0, 1]), made=made, H=2).server.weights
    is_zero = OF_WEIGHTS == ZERO
    assert is_zero.sum() == 2 * 144 * 3 / 4 + 48 * 3 / 4
    assert (after[is_zero] == 0).all()
    assert (after[~is_zero] != before[~is_zero]).float().mean() > 0.9


def test_initial_weights_are_scaled_for_fewer_inputs():
    cut, whole = (MLP(16, 400, 2, 4, Pan(), Groups(number, shared=1)) for number in (4, 1))
    for net in (cut, whole):
        he_init(net, rng(0, "weights"))
    own = cut.body.fc2.weight[cut.body.fc2.mask > 0]
    assert own.std().item() == pytest.approx(2 * whole.body.fc2.weight.std().item(), rel=0.02)


def test_vgg9_is_cut_as_in_the_papers_figure():
    net = experiment("dataset=cifar10", "model=vgg9", "model.groups=10")
    assert (net.model.convs, net.model.hidden) == ("32 64 M 128 130 M 260 260 M", [520, 520])
    wider = ("model.convs='32 64 M 130 130 M 260 260 M'", "model.hidden=[520,520]")
    assert count_weights(experiment("dataset=cifar10", "model=vgg9", "model.groups=10", *wider).network()) == 583_342
    plain = experiment("dataset=cifar10", "model=vgg9").network()
    assert count_weights(plain) == 3_491_530
    assert not any(isinstance(module, BlockConv2d | BlockLinear) for module in plain.modules())


def test_a_group_is_its_owners_bit_for_bit_and_shared_layers_are_the_mean():
    last = last_round(Fed2(), clients_with([0, 1], [2, 3]))
    models = dict(zip(last.cohort, last.update.models, strict=True))
    one, other = (models[k].weights for k in (0, 1))
    for group, owner in enumerate([one, one, other, other]):
        own = OF_WEIGHTS.eq(group)
        assert last.server.weights[own].equal(owner[own])
    shared = OF_WEIGHTS == SHARED
    torch.testing.assert_close(last.server.weights[shared], ((one + other) / 2)[shared])
    assert not one[shared].equal(other[shared])


def test_a_group_that_no_client_has_stays():
    made = trainer(small_mlp(), weight_decay=0.1)
    before = made.net.weights.clone()
    after = last_round(Fed2(), clients_with([0, 1], [1, 3]), made=made).server.weights
    stays = OF_WEIGHTS == 2
    assert after[stays].equal(before[stays])
    assert not after[OF_WEIGHTS == 3].equal(before[OF_WEIGHTS == 3])


def test_if_everybody_has_every_class_it_is_fedavg_bit_for_bit():
    clients = clients_with(EVERY, EVERY, EVERY)
    fed2, fedavg = (last_round(algorithm, clients, H=2) for algorithm in (Fed2(), FedAvg()))
    assert fed2.server.weights.equal(fedavg.server.weights)


def loss_of_client(algorithm: Fed2, *classes: int) -> tuple[torch.Tensor, FlatNet]:
    net = trainer(small_mlp()).net
    counts = torch.zeros(max(classes) + 1, dtype=torch.long)
    counts[list(classes)] = 5
    client = ClientContext(ServerState(net.weights.clone(), net.buffers, 1), {}, 10, label_counts=counts)
    algorithm.init_client(net, client)
    return algorithm.loss(net, torch.ones(2, 1, 4, 4), torch.tensor(classes), client), net


def test_logits_of_absent_groups_do_not_enter_the_loss():
    loss, net = loss_of_client(Fed2(), 0, 2)
    torch.testing.assert_close(loss, F.cross_entropy(net(torch.ones(2, 1, 4, 4))[:, [0, 2]], torch.tensor([0, 1])))
    gradients = torch.zeros_like(net.weights)
    torch._foreach_add_(net.views(gradients), torch.autograd.grad(loss, net.parameters))
    assert OF_WEIGHTS[gradients != 0].unique().tolist() == [0, 2, SHARED]
    loss, net = loss_of_client(Fed2(absent="trained"), 0, 2)
    torch.testing.assert_close(loss, F.cross_entropy(net(torch.ones(2, 1, 4, 4)), torch.tensor([0, 2])))


def test_a_client_sends_and_receives_its_own_groups():
    stats = last_round(Fed2(), clients_with(EVERY, [1])).update.stats
    every, own = (OF_WEIGHTS != ZERO).sum(), ((OF_WEIGHTS == 1) | (OF_WEIGHTS == SHARED)).sum()
    assert stats.up_bytes == stats.down_bytes == 4 * (every + own)


def test_to_train_the_logits_of_absent_groups_a_client_receives_all_groups():
    stats = last_round(Fed2(absent="trained"), clients_with(EVERY, [1])).update.stats
    every, own = (OF_WEIGHTS != ZERO).sum(), ((OF_WEIGHTS == 1) | (OF_WEIGHTS == SHARED)).sum()
    assert (stats.up_bytes, stats.down_bytes) == (4 * (every + own), 4 * (every + every))


def test_batch_norm_statistics_that_stay_at_home_are_not_counted():
    sent = {}
    for kind in ("average", "keep", "reset"):
        made = trainer(small_vgg("bn"))
        stats = last_round(Fed2(), clients_with(EVERY), made=made, bn_statistics=kind).update.stats
        sent[kind] = (stats.up_bytes, stats.down_bytes)
    up, down = sent["average"]
    statistics = made.net.buffers.nbytes
    assert sent["keep"] == (up - statistics, down - statistics)
    assert sent["reset"] == (up, down - statistics)


def test_one_and_two_ranks_give_the_same_weights():
    clients = clients_with([0, 1], [2, 3], [1, 2], [3])
    one, two = (last_round(Fed2(), clients, ranks, H=2) for ranks in (1, 2))
    assert two.server.weights.equal(one.server.weights)
    assert two.update.stats.up_bytes == one.update.stats.up_bytes


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("algorithm=fed2", r"model.groups must be above 1 with algorithm=fed2 \(a VGG or MLP .*\), got 1"),
        ("algorithm=fed2 model=resnet20", "model.groups must be above 1 with algorithm=fed2 .*, got 1"),
        ("model.groups=0", "model.groups must be at least 1, got 0"),
        ("algorithm=fed2 model.groups=11", "model.groups must be at most 10, the number of classes, got 11"),
        ("model.groups=7 model.width=32", "model.width must be divisible by model.groups=7 from layer 1 on, got 32"),
        (
            "model=vgg9 model.groups=10 model.hidden=[512,520]",
            "model.convs and model.hidden must be divisible by model.groups=10 from layer 4 on, got 32 .* 512 520",
        ),
        ("model.groups=2 model.shared_layers=4", "model.shared_layers must be 1 to 3, the hidden layers, got 4"),
        (
            "model=vgg9 model.groups=4 model.norm=gn2",
            "model.norm must be none, bn or gn<groups> with a multiple .* gn2",
        ),
        ("algorithm=fedma pan=off model.groups=10", "model.groups must be 1 with algorithm=fedma, got 10"),
        ("algorithm=fed2 algorithm.absent=no", "algorithm.absent must be masked or trained, got no"),
    ],
)
def test_bad_settings_are_refused(overrides, message):
    with pytest.raises(ConfigError, match=message):
        experiment("dataset=digits", *overrides.split())


def test_it_runs_from_the_command_line(command):
    result = command("scale=smoke", "algorithm=fed2", "model.width=20", "model.groups=10", "fl_scene.E=1")
    assert result.code == 0, result.err
    assert "groups    10, with fc2 (20) fc3 (20) head of their own after fc1 (20)" in result.out
