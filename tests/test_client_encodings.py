"""Position encodings per client: used during local training, restored afterwards, never uploaded."""

import json

import pytest
import torch

from conftest import clients_of, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import FedAvg
from fedpan_exp.federation import Scene
from fedpan_exp.models import Pan, encodings, use_client_encodings
from fedpan_exp.models.mlp import MLP

SHARED = {"mode": "mul", "A": 0.5}


def net_of(**changes) -> MLP:
    return MLP(16, 20, 2, 3, Pan(**SHARED, **changes))


def values(net) -> list[torch.Tensor]:
    return [encoding.values.clone() for encoding in encodings(net)]


@pytest.mark.parametrize(("changes", "moved"), [({}, 0), ({"per_client": "own"}, 20), ({"per_client": "partial"}, 10)])
def test_a_fraction_of_the_values_is_permuted_and_restored(changes, moved):
    net = net_of(**changes)
    shared = values(net)
    with use_client_encodings(net, seed=0, k=3):
        own = values(net)
    with use_client_encodings(net, seed=0, k=3):
        assert all(map(torch.equal, values(net), own))  # the same in every round
    with use_client_encodings(net, seed=0, k=4):
        assert any(map(torch.equal, values(net), own)) == (moved == 0)
    assert all(map(torch.equal, values(net), shared))
    for client, common in zip(own, shared, strict=True):
        assert torch.equal(client.sort().values, common.sort().values)
        changed = int((client != common).sum())
        assert moved / 2 < changed <= moved or changed == moved == 0
    assert all("values" not in name for name in net.state_dict())


def test_an_error_restores_the_shared_encoding():
    net = net_of(per_client="own")
    shared = values(net)
    with pytest.raises(ZeroDivisionError), use_client_encodings(net, seed=0, k=3):
        _ = 1 / 0
    assert all(map(torch.equal, values(net), shared))


def test_a_round_trains_clients_with_their_permuted_encodings():
    """The reference trains each client on a separate network with the client's values."""
    scene = Scene(K=2, R=1.0, E=1, H=1, B=8)
    clients = clients_of(random_images(40), [20, 20])
    trainer = trainer_of(net_of(per_client="own"))
    start = trainer.net.weights.clone()
    [round_] = run_rounds(FedAvg(), trainer, clients, scene)
    trained = []
    for k in (0, 1):
        alone = trainer_of(net_of())
        alone.net.weights.copy_(start)
        with use_client_encodings(trainer.net.net, seed=0, k=k):
            for mine, theirs in zip(encodings(alone.net.net), encodings(trainer.net.net), strict=True):
                mine.values = theirs.values
        loss = lambda x, y, net=alone.net: torch.nn.functional.cross_entropy(net(x), y)  # noqa: E731
        alone.fit(clients.batches(k, 1, 1, 8), 1, loss)
        trained.append(alone.net.weights)
    torch.testing.assert_close(round_.server.weights, (trained[0] + trained[1]) / 2)


def test_shared_and_own_encodings_are_different_runs(command):
    overrides = ("scale=smoke", "model.width=16", "fl_scene.H=1", "fl_scene.local_test=0.2", "pan.A=0.5")
    shared = command(*overrides).runs[-1]
    again = command(*overrides, "pan.own_share=0.7")
    assert again.runs == [shared]  # the setting has no effect with shared encodings
    outcome = command(*overrides, "pan.per_client=own")
    assert "each client its own" in outcome.out
    own = outcome.runs[-1]
    records = [json.loads((folder / "metrics.jsonl").read_text()) for folder in (shared, own)]
    assert records[0]["train/loss"] != records[1]["train/loss"]
    assert "local/post_acc" in records[1]


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("pan.per_client=each", "pan.per_client must be shared, own or partial, got each"),
        ("pan.own_share=0", "pan.own_share must be in (0, 1), got 0.0"),
        ("pan.own_share=1.5", "pan.own_share must be in (0, 1), got 1.5"),
    ],
)
def test_invalid_settings_are_rejected_in_one_line(command, override, line):
    outcome = command("scale=smoke", override)
    assert (outcome.code, outcome.err.strip(), outcome.runs) == (1, f"fedpan_exp: {line}", [])
