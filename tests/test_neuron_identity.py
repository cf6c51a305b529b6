"""Measures of the neurons' identity: swap costs, barriers, matching gap."""

import pytest
import torch

from conftest import clients_of, experiment, random_images, trainer_of
from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.shuffle import sample_permutations
from fedpan_exp.alignment.swap_cost import swap_costs
from fedpan_exp.federation import Snapshot
from fedpan_exp.models import Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.probes.identity import BarrierProbe, MatchingGapProbe, SwapCostProbe, state_of
from fedpan_exp.system.rng import rng
from fedpan_exp.training import FlatParameters, LocalTrainer, classification_loss


def by_hand(mode, w, b, e):
    """The change of the squared norm when neurons 0 and 1 take each other's part, by writing it down."""
    s, shift = (1 + e, 0 * e) if mode == "mul" else (torch.ones(2), e)
    effective_w, effective_b = s[:, None] * w, s * b + shift
    swapped_w, swapped_b = effective_w.flip(0) / s[:, None], (effective_b.flip(0) - shift) / s
    norm = effective_w.square().sum() + effective_b.square().sum()
    return (swapped_w.square().sum() + swapped_b.square().sum() - w.square().sum() - b.square().sum()) / norm


@pytest.mark.parametrize("mode", ["add", "mul"])
def test_swap_costs_are_the_norm_that_a_swap_needs(mode):
    g = rng(0, "swap")
    w, b, e = torch.randn(2, 5, generator=g), torch.randn(2, generator=g), torch.tensor([0.3, -0.2])
    values = 1 + e if mode == "mul" else e
    torch.testing.assert_close(swap_costs(mode, w, b, values).float(), by_hand(mode, w, b, e).reshape(1))


def test_swap_costs_of_fixed_weights_are_the_error_that_remains():
    w = torch.tensor([[1.0, 2.0, 3.0], [5.0, 0.0, 1.0]])
    fixed = torch.tensor([[True, False, False], [False, True, False]])
    b = torch.zeros(2)
    expected = ((5 - 1) ** 2 + (2 - 0) ** 2) / w.square().sum().double()
    torch.testing.assert_close(swap_costs("w_asym", w, b, b, fixed), expected.reshape(1))
    assert swap_costs("slope", w, b, b) is None
    assert swap_costs("off", w, b, b).eq(0).all()


IMAGES = random_images(60, classes=3)
CLIENTS = clients_of(IMAGES, [60])


def trained(seed: int) -> tuple[LocalTrainer, FlatParameters]:
    trainer = trainer_of(MLP(16, 12, 2, 3, Pan()))
    for tensor in trainer.net.views(trainer.net.weights):
        tensor.copy_(torch.randn(tensor.shape, generator=rng(seed, "start")) * (0.4 if tensor.dim() > 1 else 0.1))
    trainer.fit(
        CLIENTS.batches(0, seed, E=40, B=20), 1, lambda x, y: classification_loss(trainer.net(x), y), lambda: None
    )
    return trainer, FlatParameters(trainer.net.weights, trainer.net.buffers).cpu_copy()


def test_a_shuffled_network_has_a_barrier_that_matching_removes():
    trainer, model = trained(seed=1)
    spec = trainer.net.net.permutation_spec
    state = permute(state_of(trainer.net, model), spec, sample_permutations(spec, 1.0, rng(0, "shuffle")))
    trainer.net.net.load_state_dict(state)
    shuffled = FlatParameters(trainer.net.weights, trainer.net.buffers).cpu_copy()
    snapshot = Snapshot([0, 0], model, [model, shuffled])
    barriers, _ = BarrierProbe(trainer, CLIENTS, IMAGES).measure(snapshot)
    assert barriers["pair"] > 0.1
    assert barriers["pair_matched"] == pytest.approx(0, abs=1e-6)
    assert barriers["fc1"] > 0.01
    assert barriers["fc1_matched"] == pytest.approx(0, abs=1e-6)
    moved = MatchingGapProbe(trainer, CLIENTS, IMAGES).gap(
        state_of(trainer.net, model), state_of(trainer.net, shuffled)
    )
    assert moved["gain"] == pytest.approx(1)
    assert moved["fc1"] > 0.5


def test_matching_lowers_the_barrier_between_independent_networks():
    trainer, first = trained(seed=1)
    _, second = trained(seed=2)
    barriers, _ = BarrierProbe(trainer, CLIENTS, IMAGES).measure(Snapshot([0, 0], first, [first, second]))
    assert barriers["pair_matched"] < barriers["pair"]


def test_probes_of_identity_are_recorded_and_resumable_metrics(command):
    names = ("pan=w_asym", "pan.n_fix=2", "model.width=8", "model.depth=2", "probes=[barrier,matching_gap,swap_cost]")
    result = command("scale=smoke", "fl_scene.H=1", "fl_scene.E=1", "ranks=1", *names)
    assert result.code == 0, result.err
    for name in ("barrier/pair", "barrier/fc2_matched", "barrier/mean", "matching_gap/gain", "swap_cost/fc1_median"):
        assert name in result.out


@pytest.mark.parametrize(("pan", "absorbed"), [("mul", "yes"), ("rates", "plain"), ("w_asym", "no"), ("slope", "no")])
def test_the_doctor_tells_what_training_absorbs(command, pan, absorbed):
    result = command("study=doctor", "dataset=digits", "model.width=8", f"pan={pan}")
    assert result.code == 0, result.err
    (line,) = (line for line in result.out.splitlines() if line.startswith("fc1 "))
    *_, told, cheapest, median = line.split()
    assert told == absorbed
    assert (cheapest, median) == ("–", "–") if pan == "slope" else float(median) >= 0


def test_swap_costs_at_the_start_are_those_of_the_encoding():
    """Without trained biases, PAN+ costs 2 (e_i - e_j)^2 over the squared norms."""
    settings = experiment("dataset=digits", "model.width=6", "model.depth=1", "pan=add", "pan.A=0.5")
    net = settings.network()
    e = net.body.pe1.values.double()
    norms = net.body.fc1.weight.double().square().sum(1) + e.square()
    i, j = torch.triu_indices(6, 6, offset=1)
    expected = 2 * (e[i] - e[j]).square() / (norms[i] + norms[j])
    probe = SwapCostProbe.__new__(SwapCostProbe)
    probe.net = type("Holder", (), {"net": net})
    costs = probe.costs(dict(net.named_parameters()))
    assert costs["fc1"] == pytest.approx(expected.min().item())
    assert costs["fc1_median"] == pytest.approx(expected.median().item())
