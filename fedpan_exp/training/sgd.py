"""SGD with momentum: torch's fused kernel, without the 90 µs a step that torch.optim takes to call it.

That is a sixth of a step of a small network, and federated learning makes many small steps.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fedpan_exp.models import Linear


class LocalSGD:
    """Does what torch.optim.SGD does; starts afresh at each visit, in the memory it has.

    Bit for bit, but for the weights of `fading` layers, whose products add up the momentum: there rounding differs.
    """

    def __init__(self, parameters: Sequence[Tensor], momentum: float, grad_momentum: Sequence[Linear] = ()):
        self._momentum, self._weight_decay, self._is_fresh = momentum, 0.0, True
        self._momenta = [torch.zeros_like(p.detach()) for p in parameters]
        entries = [(p, p.detach(), m) for p, m in zip(parameters, self._momenta, strict=True)]
        layers = {layer.weight: layer for layer in grad_momentum}
        self._entries = [entry for entry in entries if entry[0] not in layers]
        self._fading = [(layers[p], weights, momentum) for p, weights, momentum in entries if p in layers]

    @contextmanager
    def visit(self, weight_decay: float) -> Iterator[None]:
        self._weight_decay, self._is_fresh = weight_decay, True
        for layer, _, momentum in self._fading:
            layer.weight.grad, layer.grad_momentum = momentum, 0.0
        try:
            yield
        finally:
            for layer, _, _ in self._fading:
                layer.weight.grad = layer.grad_momentum = None

    def step(self, lr: float) -> None:
        """Along the gradients, which are used up."""
        entries = [entry for entry in self._entries if entry[0].grad is not None]
        torch._fused_sgd_(
            [weights for _, weights, _ in entries],
            [parameter.grad for parameter, _, _ in entries],  # type: ignore[misc]
            [momentum for _, _, momentum in entries] if self._momentum else [],
            weight_decay=self._weight_decay,
            momentum=self._momentum,
            lr=lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=self._is_fresh,
        )
        for parameter, _, _ in entries:
            parameter.grad = None
        for layer, weights, momentum in self._fading:
            if self._weight_decay:
                momentum.add_(weights, alpha=self._weight_decay)
            weights.add_(momentum, alpha=-lr)
            layer.grad_momentum = self._momentum
        self._is_fresh = False

    def momenta(self) -> list[Tensor]:
        """By parameter; none before the first step of a visit."""
        return [] if self._is_fresh or not self._momentum else self._momenta
