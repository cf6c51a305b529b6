"""FedOpt: Adaptive Federated Optimization (Reddi et al., ICLR 2021); with SGD and momentum it is FedAvgM."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedpan_exp.algorithms.base import FedAvg, ServerState
from fedpan_exp.algorithms.update import CohortUpdate
from fedpan_exp.system.errors import require, require_choice


@dataclass
class FedOpt(FedAvg):
    """Take the server's weights minus the mean as a pseudo-gradient for an optimizer."""

    server_optimizer: str = "sgd"
    server_lr: float = 0.5
    momentum: float = 0.9  # beta_1 of Adam and Yogi
    beta2: float = 0.99
    tau: float = 1e-3  # adaptivity: added to the root of the second moment
    state_settings: ClassVar[tuple[str, ...]] = ("server_optimizer",)

    def __post_init__(self) -> None:
        require_choice("algorithm.server_optimizer", self.server_optimizer, ("sgd", "adam", "yogi"))
        require(self.server_lr > 0, "algorithm.server_lr", "above 0", self.server_lr)
        require(0 <= self.momentum < 1, "algorithm.momentum", "in [0, 1)", self.momentum)
        require(0 <= self.beta2 < 1, "algorithm.beta2", "in [0, 1)", self.beta2)
        require(self.tau > 0, "algorithm.tau", "above 0", self.tau)

    def aggregate(self, server: ServerState, update: CohortUpdate) -> None:
        server.buffers = update.buffers
        weights = server.weights.clone()
        weights.grad = server.weights - update.weights
        optimizer = self._optimizer(weights)
        optimizer.state[weights].update(server.state)  # which the server keeps between rounds
        optimizer.step()
        server.state = dict(optimizer.state[weights])
        server.weights = weights.detach()

    def _optimizer(self, weights: Tensor) -> torch.optim.Optimizer:
        if self.server_optimizer == "sgd":
            return torch.optim.SGD([weights], self.server_lr, momentum=self.momentum)
        adaptive = torch.optim.Adam if self.server_optimizer == "adam" else Yogi
        return adaptive([weights], self.server_lr, betas=(self.momentum, self.beta2), eps=self.tau)


class Yogi(torch.optim.Optimizer):
    """Adam whose second moment moves by no more than the squared gradient (Zaheer et al., NeurIPS 2018)."""

    def __init__(self, params: list[Tensor], lr: float, betas: tuple[float, float], eps: float):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for weights in group["params"]:
                gradient, state = weights.grad, self.state[weights]
                first = state.setdefault("exp_avg", torch.zeros_like(weights))
                second = state.setdefault("exp_avg_sq", torch.full_like(weights, group["eps"] ** 2))
                square = gradient.square()
                first.lerp_(gradient, 1 - beta1)
                second.addcmul_(square, torch.sign(second - square), value=-(1 - beta2))
                weights.addcdiv_(first, second.sqrt().add_(group["eps"]), value=-group["lr"])
