"""fl_scene.reserve withholds training images from all clients."""

import torch

from conftest import experiment
from fedpan_exp.studies.shared.setup import set_up


def test_reserved_images_belong_to_no_client_and_the_same_ones_are_drawn_for_every_algorithm():
    settings = ("dataset=digits", "scale=smoke", "fl_scene.reserve=0.25")
    setup = set_up(experiment(*settings))
    whole = set_up(experiment(*settings[:2])).data.train
    assert setup.unlabelled is not None
    assert len(setup.unlabelled) == round(0.25 * len(whole))
    both = torch.cat([setup.data.train.x, setup.unlabelled]).flatten(1).double()
    torch.testing.assert_close(both.sum(0), whole.x.flatten(1).double().sum(0))  # nothing twice, nothing missing
    assert sum(len(part) for part in setup.clients.train) == len(whole) - len(setup.unlabelled)
    other = set_up(experiment(*settings, "algorithm=scaffold", "pan=mul"))
    assert torch.equal(other.unlabelled, setup.unlabelled)


def test_label_counts_are_those_of_a_clients_training_samples():
    clients = set_up(experiment("dataset=digits", "scale=smoke", "fl_scene.local_test=0.2")).clients
    assert clients.label_counts(1).tolist() == [(clients.train_images(1).y == c).sum().item() for c in range(10)]
