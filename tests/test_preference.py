"""Preference vectors, against results by hand."""

import re

import pytest
import torch

from conftest import random_images, trainer_of
from fedpan_exp.alignment.preference import (
    contributions,
    layers_to_share,
    preference_spread,
    preferred_class,
    same_class_ratio,
)
from fedpan_exp.data import ImageTensors
from fedpan_exp.models import Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.models.vgg import VGG
from fedpan_exp.probes.activation_probe import ActivationProbe
from fedpan_exp.training import FlatParameters


def copy_of(trainer) -> FlatParameters:
    return FlatParameters(trainer.net.weights.clone(), trainer.net.buffers.clone())


def test_two_neurons_by_hand():
    """h = relu(x), Z = V h: p_c of neuron j is V[c, j] times the sum of its activations on the samples of class c."""
    trainer = trainer_of(MLP(2, 2, 1, 2, Pan()))
    net = trainer.net.net
    with torch.no_grad():
        net.body.fc1.weight.copy_(torch.eye(2))
        net.head.weight.copy_(torch.tensor([[3.0, -1.0], [0.5, 2.0]]))  # [class, neuron]
    pixels = torch.tensor([[255, 51], [51, 255], [0, 255]], dtype=torch.uint8)  # 1 and 0.2
    test = ImageTensors(pixels.view(3, 1, 1, 2), torch.tensor([0, 1, 1]))
    vectors = ActivationProbe(trainer, test, 3, seed=0, layers=["fc1", "head"]).preferences(copy_of(trainer))
    # Class 0 has one sample, (1, 0.2); class 1 has two, which sum to (0.2, 2).
    assert vectors["fc1"].tolist() == [pytest.approx([3.0 * 1, 0.5 * 0.2]), pytest.approx([-1.0 * 0.2, 2.0 * 2])]
    assert preferred_class(vectors["fc1"]).tolist() == [0, 1]
    # An output neuron contributes its logit to its own class: 3 - 0.2, and (0.1 + 2) + 2.
    assert vectors["head"].tolist() == [pytest.approx([2.8, 0.0]), pytest.approx([0.0, 4.1])]


def test_channels_are_summed_over_positions_whatever_the_batch_size():
    trainer = trainer_of(VGG((1, 4, 4), ["3", "M", "2"], [], 3, "none", Pan("mul", A=0.3)))
    test = random_images(12)
    model = copy_of(trainer)
    probe = ActivationProbe(trainer, test, 12, seed=0, layers=["conv1", "conv2"])
    vectors = probe.preferences(model)
    net = trainer.net.net.eval()
    expected = torch.zeros(3, 3)
    for x, y in zip(trainer.transform.normalize(test.x), test.y, strict=True):  # one sample, one class at a time
        h = net.body.relu1(net.body.pe1(net.body.conv1(x[None]))).detach().requires_grad_()
        z = net.head(net.body[list(net.body._modules).index("pool1") :](h))[0, y]
        z.backward()
        expected[:, y] += (h * h.grad).sum((0, 2, 3)).detach()
    torch.testing.assert_close(vectors["conv1"], expected)
    trainer.evaluation_batch = lambda images: 5
    torch.testing.assert_close(probe.preferences(model)["conv1"], expected)


def test_samples_contribute_to_their_own_class_only():
    activation, gradient = torch.tensor([[1.0], [2.0]]), torch.tensor([[10.0], [100.0]])
    assert contributions(activation, gradient, torch.tensor([2, 0]), 3).tolist() == [[200.0, 0.0, 10.0]]


def test_fraction_of_neurons_with_the_same_class():
    a = torch.tensor([[2.0, 1.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    b = torch.tensor([[0.5, 0.1], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    assert preferred_class(a).tolist() == [0, 1, -1, -1]
    assert same_class_ratio(a, b) == 0.5  # the first, and the one that is inactive in both


def test_the_spread_is_0_for_neurons_that_prefer_the_same_and_largest_for_one_class_each():
    assert preference_spread(torch.tensor([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]])) == pytest.approx(0.0, abs=1e-6)
    assert preference_spread(torch.tensor([[5.0, 0.0], [0.0, 0.1]])) == pytest.approx(0.5**0.5)
    assert preference_spread(torch.zeros(3, 2)) == 0.0
    assert layers_to_share({"conv1": 0.1, "conv2": 0.15, "conv3": 0.5, "fc1": 0.6}) == ["conv1", "conv2"]


def test_the_study_recommends_a_depth_for_fed2(command):
    result = command("study=preference", "scale=smoke", "model.width=16", "fl_scene.H=1", "fl_scene.E=1", "study.E=1")
    assert re.search(r"class preferences: fc1 0.\d\d fc2 .*: model.shared_layers=[12] for algorithm=fed2", result.out)
