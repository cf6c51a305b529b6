"""With server_lr=1 the algorithm is FedAvg."""

import torch

import fedpan_exp as fp

TINY = ("plugins=[example.py]", "dataset=digits", "model.width=16", "fl_scene.H=2", "fl_scene.E=1", "ranks=1")


def final_weights(*settings: str) -> torch.Tensor:
    *_, last = fp.federate(*TINY, *settings)
    return last.server.weights


def test_the_whole_way_is_fedavg() -> None:
    fedavg = final_weights("algorithm=fedavg")
    assert torch.allclose(final_weights("algorithm=example", "algorithm.server_lr=1"), fedavg)
    assert not torch.allclose(final_weights("algorithm=example"), fedavg)
