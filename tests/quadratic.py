"""Federated quadratics: two clients whose rounds can be computed by hand."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from conftest import run_rounds, trainer_of
from fedpan_exp.algorithms import FedAvg
from fedpan_exp.data import Clients, ImageTensors, ImageTransform
from fedpan_exp.federation import Round, Scene
from fedpan_exp.models import Pan
from fedpan_exp.models.mlp import MLP
from fedpan_exp.training import Training

PLAIN_SGD = Training(lr=0.5, momentum=0.0, warmup="none")
OPTIMA = (2, 6)


def quadratic(algorithm: FedAvg) -> FedAvg:
    """Replace the local loss by a/2 (w - t)^2, where t is the client's pixel and a is 1 + its label."""

    class OnQuadratic(type(algorithm)):
        def loss(self, net, x, y, client):
            return sum((1 + y[0]) / 2 * (w - x.mean()).square().sum() for w in net.parameters)

    return OnQuadratic(**vars(algorithm))


def quadratic_run(
    algorithm: FedAvg,
    steps: int,
    rounds: int,
    curvatures: Sequence[int] = (1, 1),
    training: Training = PLAIN_SGD,
    samples: Sequence[int] = (1, 1),
    start: float = 0.0,
    **scene: Any,
) -> Iterator[Round]:
    """Rounds from the weight `start`; each client takes `steps` steps per sample."""
    sizes = torch.tensor(samples)
    pixels = torch.tensor(OPTIMA, dtype=torch.uint8).repeat_interleave(sizes)
    images = ImageTensors(pixels.view(-1, 1, 1, 1), (torch.tensor(curvatures) - 1).repeat_interleave(sizes))
    trainer = trainer_of(MLP(1, 1, 0, 1, Pan()), training)
    trainer.net.weights.fill_(start)
    parts = torch.arange(len(pixels)).split(list(samples))
    clients = Clients(images, ImageTransform([0.0], [1 / 255]), parts, 0.0, seed=0)
    return run_rounds(quadratic(algorithm), trainer, clients, Scene(K=2, R=1.0, E=steps, H=rounds, B=1, **scene))


def quadratic_rounds(*args: Any, **kwargs: Any) -> list[float]:
    """The server's weight after each round."""
    history = []
    for round_ in quadratic_run(*args, **kwargs):
        assert round_.server.weights.unique().numel() == 1  # weight and bias solve the same problem
        history.append(round_.server.weights[0].item())
    return history
