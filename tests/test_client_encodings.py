"""Encodings of clients' own: there during their visits, gone afterwards, and never sent."""

import json

import pytest
import torch

from conftest import clients_of, random_images, trainer_of
from fedpan_exp.algorithms import FedAvg
from fedpan_exp.federation import Scene, federate
from fedpan_exp.models import Pan, encodings, use_client_encodings
from fedpan_exp.models.mlp import MLP

SHARED = {"mode": "mul", "A": 0.5}


def net_of(**changes) -> MLP:
    return MLP(16, 20, 2, 3, Pan(**SHARED, **changes))


def values(net) -> list[torch.Tensor]:
    return [encoding.values.clone() for encoding in encodings(net)]


@pytest.mark.parametrize(("changes", "moved"), [({}, 0), ({"per_client": "own"}, 20), ({"per_client": "partial"}, 10)])
def test_a_visit_exchanges_a_share_of_the_values_and_puts_them_back(changes, moved):
    net = net_of(**changes)
    shared = values(net)
    with use_client_encodings(net, seed=0, k=3):
        own = values(net)
    with use_client_encodings(net, seed=0, k=3):
        assert all(map(torch.equal, values(net), own))  # the same at each visit
    with use_client_encodings(net, seed=0, k=4):
        assert any(map(torch.equal, values(net), own)) == (moved == 0)
    assert all(map(torch.equal, values(net), shared))
    for mine, common in zip(own, shared, strict=True):
        assert torch.equal(mine.sort().values, common.sort().values)
        changed = int((mine != common).sum())
        assert moved / 2 < changed <= moved or changed == moved == 0
    assert all("values" not in name for name in net.state_dict())


def test_an_error_during_a_visit_leaves_the_shared_encoding():
    net = net_of(per_client="own")
    shared = values(net)
    with pytest.raises(ZeroDivisionError), use_client_encodings(net, seed=0, k=3):
        _ = 1 / 0
    assert all(map(torch.equal, values(net), shared))


def test_a_round_is_that_of_clients_with_permuted_encodings():
    """A client's way with its own encoding is worked out on a network built with those values."""
    scene = Scene(K=2, R=1.0, E=1, H=1, B=8)
    clients = clients_of(random_images(40), [20, 20])
    trainer = trainer_of(net_of(per_client="own"))
    start = trainer.net.weights.clone()
    [this] = federate(FedAvg(), trainer, clients, scene, seed=0)
    ways = []
    for k in (0, 1):
        alone = trainer_of(net_of())
        alone.net.weights.copy_(start)
        with use_client_encodings(trainer.net.net, seed=0, k=k):
            for mine, theirs in zip(encodings(alone.net.net), encodings(trainer.net.net), strict=True):
                mine.values = theirs.values
        loss = lambda x, y, net=alone.net: torch.nn.functional.cross_entropy(net(x), y)  # noqa: E731
        alone.fit(clients.batches(k, 1, 1, 8), 1, loss, adjust_gradient=lambda: None)
        ways.append(alone.net.weights)
    torch.testing.assert_close(this.server.weights, (ways[0] + ways[1]) / 2)


def test_runs_with_shared_and_own_encodings_are_different_runs(command):
    words = ("scale=smoke", "model.width=16", "fl_scene.H=1", "fl_scene.local_test=0.2", "pan.A=0.5")
    shared = command(*words).runs[-1]
    again = command(*words, "pan.own_share=0.7")
    assert again.runs == [shared]  # nobody has looked at that share
    outcome = command(*words, "pan.per_client=own")
    assert "each client its own" in outcome.out
    own = outcome.runs[-1]
    records = [json.loads((folder / "metrics.jsonl").read_text()) for folder in (shared, own)]
    assert records[0]["train/loss"] != records[1]["train/loss"]
    assert "local/post_acc" in records[1]


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("pan.per_client=each", "pan.per_client must be shared, own or partial, got each"),
        ("pan.own_share=0", "pan.own_share must be in (0, 1), got 0.0"),
        ("pan.own_share=1.5", "pan.own_share must be in (0, 1), got 1.5"),
    ],
)
def test_refusals_are_one_line(command, word, line):
    outcome = command("scale=smoke", word)
    assert (outcome.code, outcome.err.strip(), outcome.runs) == (1, f"fedpan_exp: {line}", [])
