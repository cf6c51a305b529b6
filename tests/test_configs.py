"""Every YAML file composes into a valid experiment."""

import pytest
import yaml

from conftest import experiment
from fedpan_exp.data import OWN_DATA
from fedpan_exp.sweeping.cost import count_work
from fedpan_exp.system.paths import CONF, SWEEPS

# What a group or an option needs that the defaults do not have; models: images large enough for all of them.
NEEDS = {"model": ["dataset=cifar10"], "fed2": ["model.groups=10"], "feddf": ["fl_scene.reserve=0.1"]}
OPTIONS = {(folder.name, path.stem) for folder in CONF.iterdir() if folder.is_dir() for path in folder.glob("*.yaml")}
OPTIONS -= {("dataset", name) for name in OWN_DATA}  # need the user's images: tests/test_own_data.py


@pytest.mark.parametrize(("group", "option"), sorted(OPTIONS))
def test_every_option_composes(group, option):
    settings = getattr(experiment(f"{group}={option}", *NEEDS.get(group, NEEDS.get(option, []))), group)
    assert getattr(settings, "name", option) == option


@pytest.mark.parametrize("path", [*CONF.rglob("*.yaml"), *SWEEPS.glob("*.yaml")], ids=lambda path: path.name)
def test_every_yaml_starts_with_a_description(path):
    lines = [line for line in path.read_text().splitlines() if not line.startswith("# @package")]
    assert lines[0].startswith("# ")
    assert yaml.safe_load(path.read_text())


def test_datasets_select_the_papers_network_unless_overridden():
    assert experiment("dataset=cifar10").model.name == "vgg11"
    assert experiment("dataset=mnist").model.name == "mlp"
    assert experiment("dataset=cifar10", "model=vgg9").model.name == "vgg9"
    assert experiment("scale=smoke").dataset.name == "digits"


def test_single_settings_override_the_authors_fidelity():
    authors = experiment("fidelity=authors", "dataset=cifar10")
    assert (authors.training.lr, authors.training.clip, authors.training.weight_decay) == (0.03, 100.0, 1e-5)
    assert (authors.training.warmup, authors.pan.placement) == ("rounds", "authors")
    assert (authors.fl_scene.local_test, authors.fl_scene.small_clients) == (0.2, "drop")
    assert experiment("fidelity=authors", "dataset=cifar10", "model.lr=0.2").training.lr == 0.2
    assert experiment("fidelity=authors", "training.clip=null").training.clip is None
    paper = experiment("dataset=cifar10")
    assert (paper.training.lr, paper.training.clip, paper.training.weight_decay) == (0.05, 100.0, 0.0)


def test_evaluation_every_few_rounds_and_in_the_last_five():
    often = experiment("eval_every=10", "fl_scene.H=30")
    assert [round_idx for round_idx in range(1, 31) if often.evaluates(round_idx)] == [10, 20, 26, 27, 28, 29, 30]
    fraction = experiment("eval_every=0.05", "fl_scene.H=100")
    assert [round_idx for round_idx in range(1, 16) if fraction.evaluates(round_idx)] == [5, 10, 15]


@pytest.mark.parametrize("option", sorted(option for group, option in OPTIONS if group == "algorithm"))
def test_the_cost_of_every_algorithm_is_counted(option):
    """Also of those that look at weights, as matching does, or at the labels of a client."""
    tested = experiment("dataset=digits", "pan=off", "model.width=20", f"algorithm={option}", *NEEDS.get(option, []))
    work = count_work(tested, clients=10)
    forward = 2 * sum(p.numel() for p in tested.network().parameters() if p.dim() == 2)
    assert 2 * forward < work.operations < 6 * forward
    assert work.sent_bytes >= 2 * work.weight_bytes
