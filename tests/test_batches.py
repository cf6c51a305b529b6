"""Mini-batches: indexing, normalization and augmentation."""

import pytest
import torch

from conftest import PLAIN_PIXELS, clients_of, random_images
from fedpan_exp.data import Clients, ImageTransform
from fedpan_exp.federation import Scene
from fedpan_exp.studies.shared.setup import check_local_work
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.rng import rng


def test_an_epoch_has_every_sample_of_the_client_once():
    images = random_images(30, shape=(1, 2, 2))
    clients = clients_of(images, [10, 20])
    seen = torch.cat([x for x, _ in clients.batches(1, round_idx=1, E=1, B=8)]).flatten(1)
    expected = PLAIN_PIXELS.normalize(images.x[10:]).flatten(1)
    assert torch.equal(seen.unique(dim=0), expected.unique(dim=0))
    assert [len(y) for _, y in clients.batches(1, round_idx=1, E=2, B=8)] == [8, 8, 4, 8, 8, 4]


@pytest.mark.parametrize(("E", "sizes"), [(0.5, [8, 2]), (1, [8, 8, 4]), (1.25, [8, 8, 4, 5]), (0.05, [1])])
def test_the_last_epoch_may_be_a_fraction(E, sizes):
    clients = clients_of(random_images(20), [20])
    part, whole = (list(clients.batches(0, 1, epochs, B=8)) for epochs in (E, 2))
    assert [len(y) for _, y in part] == sizes
    assert clients.steps(0, E, B=8) == len(sizes)
    assert all(torch.equal(x, y[: len(x)]) for (x, _), (y, _) in zip(part, whole, strict=False))


def test_steps_continue_over_as_many_epochs_as_they_need():
    clients = clients_of(random_images(20), [20])
    steps, epochs = list(clients.batches(0, 1, E=1, B=8, steps=5)), list(clients.batches(0, 1, E=2, B=8))
    assert len(steps) == 5
    assert all(torch.equal(a[0], b[0]) for a, b in zip(steps, epochs, strict=False))


def test_batches_depend_on_seed_round_and_client_only():
    clients = clients_of(random_images(40), [20, 20])

    def labels(k, round_idx):
        return torch.cat([y for _, y in clients.batches(k, round_idx, E=2, B=8)])

    first = labels(0, 1)
    labels(1, 1)
    torch.manual_seed(1)
    assert torch.equal(labels(0, 1), first)
    assert not torch.equal(labels(0, 2), first)
    assert not torch.equal(labels(1, 1), first)
    other_seed = clients_of(random_images(40), [20, 20], seed=1)
    assert not torch.equal(torch.cat([y for _, y in other_seed.batches(0, 1, E=2, B=8)]), first)


def test_skipping_a_single_sample_changes_no_other_batch():
    images = random_images(17, shape=(1, 4, 4))
    clients = Clients(images, ImageTransform([0.0], [1.0], crop_padding=1, flip=True), [torch.arange(17)], 0.0, seed=0)
    every, skipped = (list(clients.batches(0, 1, E=2, B=8, skip_single=skip)) for skip in (False, True))
    expected = [batch for batch in every if len(batch[1]) > 1]
    assert len(expected) == len(skipped) == 4
    assert all(torch.equal(a[0], b[0]) for a, b in zip(expected, skipped, strict=True))


def test_a_single_last_sample_can_be_skipped():
    clients = clients_of(random_images(17), [17])
    assert [len(y) for _, y in clients.batches(0, 1, E=1, B=8)] == [8, 8, 1]
    assert [len(y) for _, y in clients.batches(0, 1, E=1, B=8, skip_single=True)] == [8, 8]


def test_the_local_test_set_is_not_trained_on():
    clients = clients_of(random_images(50), [20, 30], local_test=0.2)
    assert [len(clients.test_images(k)) for k in (0, 1)] == [4, 6]
    for k, owned in ((0, range(20)), (1, range(20, 50))):
        assert sorted(torch.cat([clients.train[k], clients.test[k]]).tolist()) == list(owned)


def test_normalization_equals_torchvisions():
    from torchvision.transforms import v2

    x = random_images(5, shape=(3, 6, 6)).x
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.1)
    theirs = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)])
    torch.testing.assert_close(ImageTransform(mean, std).normalize(x), theirs(x))


def test_a_crop_is_a_window_of_the_padded_image():
    x = random_images(200, shape=(3, 6, 6)).x
    transform = ImageTransform([0.0] * 3, [1 / 255] * 3, crop_padding=2)  # keeps the pixel values
    cropped = transform.augment(x, transform.draw([200], rng(0, "crop"))).round().to(torch.uint8)
    padded = torch.nn.functional.pad(x, (2, 2, 2, 2))
    offsets = set()
    for image, whole in zip(cropped, padded, strict=True):
        fits = [(i, j) for i in range(5) for j in range(5) if torch.equal(whole[:, i : i + 6, j : j + 6], image)]
        assert len(fits) == 1
        offsets.add(fits[0])
    assert len(offsets) == 25


def test_about_half_of_the_images_are_flipped():
    x = random_images(400, shape=(1, 4, 4)).x
    transform = ImageTransform([0.0], [1 / 255], flip=True)
    augmented = transform.augment(x, transform.draw([400], rng(0, "flip"))).round().to(torch.uint8)
    flipped = (augmented == x.flip(3)).flatten(1).all(1)
    unchanged = (augmented == x).flatten(1).all(1)
    assert (flipped ^ unchanged).all()
    assert flipped.float().mean().item() == pytest.approx(0.5, abs=0.1)


def test_crops_and_flips_are_torchvisions():
    """The same pixels as torchvision's functions, image by image."""
    from torchvision.transforms.v2 import functional as vision

    x = random_images(30, shape=(3, 6, 8)).x
    transform = ImageTransform([0.0] * 3, [1 / 255] * 3, crop_padding=2, flip=True)
    draws = transform.draw([16, 14], rng(0, "draws"))
    assert len(set(draws[2].tolist())) == 2
    for image, ours, (row, column, flip) in zip(x, transform.augment(x, draws), draws.t().tolist(), strict=True):
        theirs = vision.crop(vision.pad(image, [2]), row, column, 6, 8)
        theirs = vision.horizontal_flip(theirs) if flip else theirs
        assert torch.equal(ours.round().to(torch.uint8), theirs)


def test_the_draws_of_a_batch_do_not_depend_on_the_batches_after_it():
    transform = ImageTransform([0.0], [1.0], crop_padding=2, flip=True)
    first, longer = (transform.draw(sizes, rng(0, "draws")) for sizes in ([16, 5], [16, 5, 40]))
    assert torch.equal(longer[:, :21], first)


def test_a_fraction_of_an_epoch_without_any_sample_is_refused():
    check_local_work([1, 9], Scene(E=1))
    check_local_work([1, 9], Scene(E=0.5, steps=2))
    with pytest.raises(ConfigError, match=r"fl_scene.E must be at least 1 sample of every client, .* has 1, got 0.5"):
        check_local_work([1, 9], Scene(E=0.5))
    with pytest.raises(ConfigError, match=r"fl_scene.E must be at least 2 samples of every client, .* has 9, got 0.2"):
        check_local_work([9, 19], Scene(E=0.2), fewest=2)  # as with BatchNorm, which skips a batch of one sample
