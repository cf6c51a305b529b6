"""FedDF: distillation of the local models into their mean, on images without labels."""

import pytest
import torch
from torch.nn import functional as F

from conftest import clients_of, experiment, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import FedAvg, FedDF, ServerContext
from fedpan_exp.algorithms.feddf import mean_logits
from fedpan_exp.data import DatasetSplits, withhold
from fedpan_exp.federation import Round, Scene
from fedpan_exp.models import Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.resnet import ResNet
from fedpan_exp.studies.shared import setup
from fedpan_exp.system.atomic_io import read_lines
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.training import FlatParameters, LocalTrainer, Training, distil, distillation_loss

IMAGES = random_images(40, seed=1).x


def last_round(algorithm: FedAvg, R: float = 1.0, **changes) -> Round:
    trainer = trainer_of(ResNet(1, 4, 1, 3, "bn", Pan()), Training(lr=0.05, warmup="none"))
    clients = clients_of(random_images(36, shape=(1, 8, 8)), [12, 8, 16])
    images = random_images(30, shape=(1, 8, 8), seed=1)
    scene = Scene(K=3, R=R, E=2, H=2, B=4)
    changes = {"unlabelled": images.x, "test": random_images(20, (1, 8, 8), seed=2), **changes}
    *_, last = run_rounds(algorithm, trainer, clients, scene, **changes)
    return last


def teachers(trainer: LocalTrainer, number: int) -> tuple[list[FlatParameters], ServerContext]:
    """Random models, and the context in which they are fused."""
    net = trainer.net
    models = [FlatParameters(torch.randn_like(net.weights), net.buffers.clone()) for _ in range(number)]
    return models, ServerContext(trainer, clients_of(random_images(8), [8]), list(range(number)), 1, seed=0)


def start_of_distillation(net: MLP, number: int) -> tuple[float, float, float]:
    """Loss and largest gradient of the mean of random models; and the loss if their probabilities were averaged."""
    trainer = trainer_of(net)
    models, context = teachers(trainer, number)
    targets = mean_logits(models, IMAGES, context)
    inputs = trainer.transform.normalize(IMAGES)
    probabilities = sum(F.softmax(logits_of(trainer, model), 1) for model in models) / number
    trainer.net.load(torch.stack([model.weights for model in models]).mean(0), trainer.net.buffers)
    loss = distillation_loss(trainer.net(inputs), targets)
    gradients = torch.autograd.grad(loss, trainer.net.parameters)
    by_probability = distillation_loss(trainer.net(inputs), probabilities.log())
    return loss.item(), max(gradient.abs().max().item() for gradient in gradients), by_probability.item()


def logits_of(trainer: LocalTrainer, model: FlatParameters) -> torch.Tensor:
    trainer.net.load(*model)
    return trainer.logits(IMAGES)


def test_without_steps_it_is_fedavg_bit_for_bit():
    fedavg, none, some = (last_round(algorithm) for algorithm in (FedAvg(), FedDF(steps=0), FedDF(steps=2)))
    assert none.server.weights.equal(fedavg.server.weights)
    assert none.server.buffers.equal(fedavg.server.buffers)
    assert not some.server.weights.equal(fedavg.server.weights)


def test_a_linear_model_has_nothing_to_distil():
    """The mean of the logits is the mean model's: what distillation corrects is averaging through a ReLU."""
    torch.manual_seed(0)
    loss, gradient, by_probability = start_of_distillation(MLP(16, 1, 0, 3, Pan()), number=4)
    assert abs(loss) <= 3e-8
    assert gradient <= 1e-6
    assert by_probability > 0.01
    assert start_of_distillation(MLP(16, 8, 1, 3, Pan()), number=4)[0] > 0.01


def test_a_single_teacher_has_nothing_to_add():
    torch.manual_seed(0)
    loss, gradient, _ = start_of_distillation(MLP(16, 8, 2, 3, Pan()), number=1)
    assert abs(loss) <= 3e-8
    assert gradient <= 1e-6


def test_distilling_lowers_the_divergence_on_the_images_and_leaves_no_gradients():
    torch.manual_seed(0)
    trainer = trainer_of(MLP(16, 8, 1, 3, Pan()))
    models, context = teachers(trainer, 3)
    targets = mean_logits(models, IMAGES, context)
    trainer.net.load(torch.stack([model.weights for model in models]).mean(0), trainer.net.buffers)
    before = distillation_loss(trainer.logits(IMAGES), targets)
    distil(trainer, IMAGES, targets, torch.arange(40).view(2, 20).repeat(50, 1), lr=0.01, clip=5.0)
    assert distillation_loss(trainer.logits(IMAGES), targets) < before / 2
    assert all(parameter.grad is None for parameter in trainer.net.parameters)


def test_distilling_leaves_fixed_weights_alone():
    net = experiment("dataset=digits", "model.width=16", "pan=w_asym").network()
    trainer = trainer_of(net)
    start = {name: net.get_parameter(name).detach().clone() for name in net.fixed}
    images = random_images(40, shape=(1, 8, 8)).x
    distil(trainer, images, torch.randn(40, 10), torch.arange(40).view(5, 8), lr=0.01, clip=5.0)
    for name, fixed in net.fixed.items():
        moved = (net.get_parameter(name).detach() - start[name]).abs()
        assert moved[fixed].max() == 0
        assert moved[~fixed].max() > 0


def test_the_loss_is_the_divergence_of_softened_predictions():
    logits, targets = torch.randn(5, 3), torch.randn(5, 3)
    p, q = (F.softmax(each / 2, 1) for each in (targets, logits))
    torch.testing.assert_close(distillation_loss(logits, targets, 2.0), (p * (p / q).log()).sum(1).mean())


def test_teachers_predict_with_their_own_encodings():
    trainer = trainer_of(MLP(16, 8, 1, 3, Pan("mul", A=0.5, per_client="own")))
    models, context = teachers(trainer, 2)
    own = []
    for k, model in enumerate(models):
        with trainer.net.using_encodings_of(k, 0):
            own.append(logits_of(trainer, model))
    torch.testing.assert_close(mean_logits(models, IMAGES, context), sum(own) / 2)


def test_one_round_reports_the_mean_the_ensemble_and_the_student():
    last = last_round(FedDF(steps=0))
    metrics, student = last.metrics(), last.test().accuracy
    assert metrics["global/mean_acc"] == student  # without steps
    assert 0 <= metrics["global/ensemble_acc"] <= 1
    assert metrics["time/fuse_s"] <= metrics["time/round_s"]
    assert (
        last_round(FedDF(steps=0), R=0.3).metrics()["global/ensemble_acc"]
        == last_round(FedAvg(), R=0.3).test().accuracy
    )
    untested = last_round(FedDF(steps=0), evaluate_at=lambda round_idx: False).metrics()
    assert "global/mean_acc" not in untested


def test_labels_of_the_reserve_are_never_seen():
    images = random_images(50)
    data = DatasetSplits(images, images)
    rest, reserve = withhold(data, 0.2, seed=3)
    is_reserved = torch.tensor([any(torch.equal(x, y) for y in reserve) for x in images.x])
    images.y[is_reserved] = 7
    same_rest, same_reserve = withhold(data, 0.2, seed=3)
    assert torch.equal(same_reserve, reserve)
    assert torch.equal(same_rest.train.y, rest.train.y)
    assert len(withhold(data, 1e-6, seed=3)[1]) == 1


def test_another_dataset_gives_the_images(monkeypatch):
    def fake(shape):
        images = random_images(12, shape)
        monkeypatch.setattr(setup, "load_dataset", lambda name, root, verify: DatasetSplits(images, images))
        return images

    overrides = ("dataset=digits", "algorithm=feddf", "algorithm.data=cifar100")
    images = fake((1, 8, 8))
    assert torch.equal(setup.set_up(experiment(*overrides)).unlabelled, images.x)
    fake((3, 32, 32))
    rule = r"algorithm.data must be a dataset of images .* \[1, 8, 8\], got cifar100 \[3, 32, 32\]"
    with pytest.raises(ConfigError, match=rule):
        setup.set_up(experiment(*overrides))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("", "fl_scene.reserve must be above 0 with algorithm=feddf, for images on the server .*, got 0.0"),
        ("algorithm.data=digits", "algorithm.data must be another dataset than the clients' .*, got digits"),
        ("algorithm.data=cifar", "algorithm.data must be mnist, .*, got cifar; did you mean cifar10?"),
        ("algorithm.steps=-1", "algorithm.steps must be at least 0, got -1"),
        (
            "fl_scene.reserve=0.1 model=resnet20 model.norm=bn algorithm.B=1",
            "algorithm.B must be at least 2 for a network with BatchNorm, got 1",
        ),
        ("algorithm.temperature=0", "algorithm.temperature must be above 0, got 0.0"),
    ],
)
def test_bad_settings_are_refused(overrides, message):
    with pytest.raises(ConfigError, match=message):
        experiment("dataset=digits", "algorithm=feddf", *overrides.split())


def test_it_runs_from_the_command_line(command):
    few = ("algorithm.steps=5", "model.width=16", "fl_scene.E=1")
    result = command("scale=smoke", "algorithm=feddf", "fl_scene.reserve=0.1", *few)
    assert result.code == 0, result.err
    assert "reserve   144 training images withheld from all clients" in result.out
    for record in read_lines(result.runs[0] / "metrics.jsonl"):
        assert {"time/fuse_s", "global/mean_acc", "global/ensemble_acc", "global/test_acc"} <= record.keys()
