"""Entries that are not trained: masks that networks and algorithms draw, and what is fixed there."""

import itertools
from functools import partial

import pytest
import torch

from conftest import clients_of, experiment, random_images, run_rounds
from fedpan_exp.algorithms import ALGORITHMS, FedPFN, FedPNU, ServerState
from fedpan_exp.algorithms.fedpfn import random_mask
from fedpan_exp.federation import ClientStates, FederatedTask, Scene, federate
from fedpan_exp.federation.checkpoint import Checkpoint
from fedpan_exp.models.heads import simplex_etf
from fedpan_exp.models.pan_parameters import fix_weights
from fedpan_exp.studies.shared.setup import make_trainer
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.rng import rng
from fedpan_exp.training import Classifier, FlatNet, LocalTrainer, classification_loss

TINY = ("dataset=digits", "model.width=12", "model.depth=2", "model.init=he", "training.warmup=none")
FIXED = {
    "w_asym": ("pan=w_asym", "pan.n_fix=3"),
    "frozen_bias": ("pan=frozen_bias",),
    "etf": ("pan=off", "model.head=etf"),
}


def trainer_of(*overrides: str) -> LocalTrainer:
    settings = experiment(*TINY, *overrides)
    return make_trainer(settings, settings.network())


def cross_entropy(net: FlatNet, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return classification_loss(net(x), y)


def digits():
    return clients_of(random_images(24, (1, 8, 8), 10), [8, 16])


def fixed_mask(trainer: LocalTrainer) -> torch.Tensor:
    mask = torch.zeros_like(trainer.net.weights, dtype=torch.bool)
    views = trainer.net.named_views(mask)
    for name, fixed in trainer.net.net.fixed.items():
        views[name].copy_(fixed)
    return mask


@pytest.mark.parametrize("name", sorted({"fedprox", "fedopt", "scaffold", "moon", "fedpfn"} & set(ALGORITHMS)))
@pytest.mark.parametrize("options", [(), ("training.fast=false",), ("training.clip=0.5",)], ids=" ".join)
def test_fixed_entries_never_change(name, options):
    """Neither by gradients, decay, momentum, clipping nor averaging; all others do."""
    trainer = trainer_of(*FIXED["w_asym"], "model.head=frozen", "training.weight_decay=0.1", *options)
    mask, start = fixed_mask(trainer), trainer.net.weights.clone()
    *_, last = run_rounds(ALGORITHMS[name](), trainer, digits(), Scene(K=2, R=1.0, E=1, H=2, B=8))
    moved = last.server.weights != start
    assert mask.sum() == 2 * 12 * 3 + 12 * 10 + 10
    assert not moved[mask].any()
    assert moved[~mask].float().mean() > (0.4 if name == "fedpfn" else 0.9)


@pytest.mark.parametrize("kind", FIXED)
def test_masks_are_the_same_on_every_worker_and_fixed_there(kind):
    finals = []
    for ranks in (1, 2):
        trainer = trainer_of(*FIXED[kind])
        mask, start = fixed_mask(trainer), trainer.net.weights.clone()
        scene = Scene(K=2, R=1.0, E=1, H=2, B=8)
        *_, last = run_rounds(FedPNU(), trainer, digits(), scene, ranks, ClientStates())
        assert torch.equal(last.server.weights[mask], start[mask])
        finals.append(last.server.weights)
    assert torch.equal(*finals)


def test_a_resumed_run_draws_the_same_masks():
    def task() -> FederatedTask:
        trainer, scene = trainer_of(*FIXED["w_asym"]), Scene(K=2, R=1.0, E=1, H=3, B=8)
        return FederatedTask(FedPNU(), trainer, digits(), scene, seed=0)

    rounds = federate(task())
    first = next(rounds)
    saved = Checkpoint(1, ServerState(first.server.weights.clone(), first.server.buffers.clone(), 2), {}, 0)
    *_, straight = rounds
    *_, resumed = federate(task(), resume=saved)
    assert torch.equal(straight.server.weights, resumed.server.weights)


def test_w_asym_fixes_weights_per_neuron_at_values_of_size_kappa():
    weight = torch.zeros(500, 4, 3, 3)
    mask = fix_weights(weight, 5, 2.0, rng(0, "test"))
    assert mask.flatten(1).sum(1).eq(5).all()
    assert len(mask.flatten(1).unique(dim=0)) > 490  # the places differ between neurons
    assert weight[~mask].eq(0).all()
    assert weight[mask].std().item() == pytest.approx(2.0, rel=0.05)
    again = torch.zeros_like(weight)
    assert torch.equal(fix_weights(again, 5, 2.0, rng(0, "test")), mask)
    assert torch.equal(again, weight)


def test_w_asym_depends_on_the_seed_and_nothing_else():
    masks = [
        experiment(*TINY, *FIXED["w_asym"], *others).network().fixed["body.fc1.weight"]
        for others in ([], ["algorithm=moon"], ["seed=1"])
    ]
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


def test_fedpfn_freezes_one_part_and_fedpnu_lets_parts_take_turns():
    """The first keeps its initial values for ever; the parts of the second are frozen in every other round."""
    trainer = trainer_of("pan=off")
    start = trainer.net.weights.clone()
    scene = Scene(K=2, R=1.0, E=1, H=2, B=8)
    *_, last = run_rounds(FedPFN(rho=0.25), trainer, digits(), scene)
    mask = random_mask(trainer.net, 0, 0.0, 0.25)
    assert trainer.net.named_views(mask)["body.fc1.weight"].float().mean().item() == pytest.approx(0.25, abs=0.05)
    assert not (last.server.weights != start)[mask].any()
    assert (last.server.weights != start)[~mask].float().mean() > 0.5

    trainer = trainer_of("pan=off")
    weights = [start, *(round_.server.weights.clone() for round_ in run_rounds(FedPNU(), trainer, digits(), scene))]
    for round_idx, (before, after) in enumerate(itertools.pairwise(weights), start=1):
        part = random_mask(trainer.net, 0, *((0.5, 1.0) if round_idx % 2 else (0.0, 0.5)))
        assert not (after != before)[part].any()
        assert (after != before)[~part].float().mean() > 0.5


def test_an_etf_has_unit_vectors_at_equal_angles():
    etf = simplex_etf(5, 9, rng(0, "test")).double()
    expected = torch.full((5, 5), -1 / 4, dtype=torch.float64).fill_diagonal_(1)
    torch.testing.assert_close(etf @ etf.t(), expected, atol=1e-6, rtol=0)


def test_decay_to_a_random_point_is_a_pull_toward_it():
    """One step of plain SGD: w - lr (g + decay (w - point)), where g is the step without decay."""
    batch = (torch.randn(4, 1, 8, 8), torch.tensor([0, 1, 2, 3]))
    steps = {}
    for decay in ("0", "0.5"):
        options = () if decay == "0" else ("training.decay_to=random",)
        trainer = trainer_of("pan=off", "training.lr=0.1", f"training.weight_decay={decay}", *options)
        start = trainer.net.weights.clone()
        net = trainer.net
        trainer.fit([batch], 1, partial(cross_entropy, net), lambda: None)
        steps[decay] = net.weights - start
    views = net.named_views(point := torch.zeros_like(start))
    for name, values in net.net.decay_point.items():
        views[name].copy_(values)
    torch.testing.assert_close(steps["0.5"], steps["0"] - 0.1 * 0.5 * (start - point))
    assert not torch.equal(point, start)


def test_only_weights_within_a_group_are_fixed():
    net = experiment(*TINY, "pan=w_asym", "pan.n_fix=3", "model.groups=4").network()
    fixed = net.fixed["body.fc2.weight"]
    assert fixed.sum(1).eq(3).all()
    assert net.body.fc2.mask[fixed].all()
    assert net.body.fc2.weight[net.body.fc2.mask == 0].eq(0).all()


def test_centralized_training_spares_fixed_entries():
    settings = experiment(*TINY, *FIXED["w_asym"], "training.weight_decay=0.1", "training.momentum=0")
    module = Classifier(settings.network(), settings.training)
    before = {name: p.detach().clone() for name, p in module.net.named_parameters()}
    optimizer = module.configure_optimizers()["optimizer"]
    torch.nn.functional.cross_entropy(module(torch.randn(4, 1, 8, 8)), torch.tensor([0, 1, 2, 3])).backward()
    module.on_after_backward()
    optimizer.step()
    name = "body.fc1.weight"
    changed, fixed = module.net.get_parameter(name) != before[name], module.net.fixed[name]
    assert not changed[fixed].any()
    assert changed[~fixed].float().mean() > 0.9


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("pan=w_asym", "pan.n_fix=65"), "pan.n_fix must be at most 64, the incoming weights of a neuron of fc1"),
        (("pan=w_asym", "pan.n_fix=0"), "pan.n_fix must be at least 1 with pan=w_asym, else 0, got 0"),
        (("pan=frozen_bias", "pan.A=0"), "pan.A must be above 0 with pan=frozen_bias, got 0"),
        (("pan=after", "pan.placement=authors"), "pan.placement must be paper with pan=after"),
        (("pan=rates", "pan.per_client=own"), "pan.per_client must be shared with pan=rates"),
        (("model.head=etf", "model.width=9"), "model.head must be trained or frozen for 10 classes and 9 features"),
        (("training.decay_to=random",), "training.weight_decay must be above 0 with training.decay_to=random, got 0"),
        (("pan=add", "training.neuron_rates=compensated"), "training.neuron_rates must be plain with pan=add"),
        (
            ("pan=mul", "training.neuron_rates=compensated", "pan.per_client=own"),
            "training.neuron_rates must be plain where clients have encodings of their own",
        ),
        (
            ("pan=mul", "pan.A=1", "training.neuron_rates=compensated"),
            "training.neuron_rates must be plain where a neuron has the factor",
        ),
        (
            ("pan=w_asym", "pan.n_fix=7", "model.groups=2"),
            "pan.n_fix must be at most 6, the incoming weights of a neuron of fc2",
        ),
        (("algorithm=fedpfn", "algorithm.rho=1"), "algorithm.rho must be in"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_line(overrides, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        experiment(*TINY[:4], *overrides)
