"""Shape and classes follow from the images; a small network learns them."""

import fedpan_exp as fp

SETTINGS = ("plugins=[example.py]", "dataset=example", "model.width=16", "model.init=he", "fl_scene.K=10", "ranks=1")


def test_the_images_describe_themselves() -> None:
    dataset = fp.experiment(*SETTINGS).dataset
    assert (dataset.shape, dataset.classes) == ([1, 8, 8], 8)


def test_it_can_be_learnt() -> None:
    *_, last = fp.federate(*SETTINGS, "fl_scene.R=1", "fl_scene.H=3", "fl_scene.partition=iid")
    assert last.test().accuracy > 0.9
