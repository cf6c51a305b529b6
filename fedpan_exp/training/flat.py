"""A network whose parameters, and whose buffers, are each one vector."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedpan_exp.models import Network, use_client_encodings

Clearing = Callable[[Tensor], Tensor]  # sets entries of a gradient to 0, in place
FEW = 1 / 32  # of the entries: so many take half the time by index, 8 of 1,024 a sixth


class FlatParameters(NamedTuple):
    """The weights and buffers of a network, one vector each."""

    weights: Tensor
    buffers: Tensor

    def cpu_copy(self) -> "FlatParameters":
        """A copy in main memory."""
        return FlatParameters(*(vector.detach().to("cpu", copy=True) for vector in self))


class FlatNet:
    """Wraps a network so that federated algorithms are vector arithmetic.

    `weights` and `buffers` are the live storage of the network: writing to them changes it, training it changes them.
    Gradients remain one tensor per parameter, None between clients: as views of one vector they cost 7-15% of a step.
    """

    def __init__(self, net: Network, forward: Callable[..., Any] | None = None):
        self.net = net
        self._forward = forward or net  # Fabric's wrapper, which handles precision
        self.parameters: list[Tensor] = list(net.parameters())
        self.trained = self.parameters  # those that are not frozen as a whole
        self.masked: list[tuple[Tensor, Clearing]] = []  # partly frozen ones
        self.weights = _flatten(self.parameters)
        self._fixed = self._fixed_entries()  # by the network itself
        if self._fixed is not None:
            self._freeze(self._fixed)
        # Only what a state dict holds. Position encodings are not in it: they are neither sent nor averaged.
        saved = net.state_dict().keys()
        buffers = [b for name, b in net.named_buffers() if name in saved]
        self.buffers = _flatten([b for b in buffers if b.is_floating_point()]).to(self.weights.device)
        self._counters = [b for b in buffers if not b.is_floating_point()]  # of BatchNorm's batches; nobody reads them

    def __call__(self, x: Tensor) -> Tensor:
        return self._forward(x)

    def features_and_logits(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._forward(x, with_features=True)

    def gradients(self) -> list[Tensor]:
        """The gradients of the trained parameters."""
        return [p.grad for p in self.trained if p.grad is not None]

    @contextmanager
    def freezing(self, mask: Tensor | None) -> Iterator[None]:
        """Exclude the entries of the weights that are true in `mask` from training in this context.

        Backward skips parameters that are frozen as a whole. LocalTrainer.fit clears the gradients of single entries.
        What the network itself fixes (`Network.fixed`) is frozen inside and outside of this context.
        """
        if mask is None:
            yield
            return
        self._freeze(mask if self._fixed is None else mask | self._fixed)
        try:
            yield
        finally:
            self._freeze(self._fixed)

    def _freeze(self, mask: Tensor | None) -> None:
        views = [None] * len(self.parameters) if mask is None else self.views(mask)
        self.trained, self.masked = [], []
        for parameter, view in zip(self.parameters, views, strict=True):
            is_whole = view is not None and bool(view.all())
            parameter.requires_grad_(not is_whole)
            if not is_whole:
                self.trained.append(parameter)
                if view is not None and view.any():
                    self.masked.append((parameter, _clearing(view, parameter.dtype)))

    def _fixed_entries(self) -> Tensor | None:
        """A mask over the weights; None if the network fixes none."""
        if not self.net.fixed:
            return None
        mask = torch.zeros_like(self.weights, dtype=torch.bool)
        views = self.named_views(mask)
        for name, fixed in self.net.fixed.items():
            views[name].copy_(fixed)
        return mask

    @torch.no_grad()
    def clear_frozen_gradients(self) -> None:
        """Set the gradients of frozen entries to 0."""
        for parameter, clear in self.masked:
            if parameter.grad is not None:
                # This only shortens a gradient. Through `data` it does not count as a change, so that the bound that a
                # wide layer knows of the norm (onednn.py) remains in use.
                clear(parameter.grad.data)

    def frozen_features(self, weights: Tensor, buffers: Tensor) -> Callable[[Tensor], Tensor]:
        """The features the network would compute with other weights: in eval mode, without gradients."""
        twin = self._twin(weights, buffers)
        return torch.no_grad()(lambda x: twin.features(x.to(weights.dtype)))

    def frozen_logits(self, weights: Tensor, buffers: Tensor) -> Callable[[Tensor], Tensor]:
        """The logits that the network would compute with other weights, likewise."""
        twin = self._twin(weights, buffers)
        return torch.no_grad()(lambda x: twin(x.to(weights.dtype)))

    def using_encodings_of(self, k: int, seed: int) -> AbstractContextManager[None]:
        """Use the client's own encodings in this context, where clients have any."""
        return use_client_encodings(self.net, seed, k)

    @torch.no_grad()
    def load(self, weights: Tensor, buffers: Tensor) -> None:
        self.weights.copy_(weights)
        self.buffers.copy_(buffers)
        for counter in self._counters:  # otherwise they depend on how often this process has trained
            counter.zero_()

    def copied_state(self) -> dict[str, Tensor]:
        """A copy of the network's state dict."""
        return {name: tensor.clone() for name, tensor in self.net.state_dict().items()}

    def named_views(self, vector: Tensor) -> dict[str, Tensor]:
        """A vector of the weights' length as views, by parameter name."""
        return dict(zip((name for name, _ in self.net.named_parameters()), self.views(vector), strict=True))

    def views(self, vector: Tensor) -> list[Tensor]:
        """A vector of the weights' length as views in the parameters' shapes."""
        return _split(vector, self.parameters)

    def trained_views(self, vector: Tensor) -> list[Tensor]:
        """Like `views`, but of the trained parameters, as `gradients` has them."""
        trained = set(self.trained)
        return [view for p, view in zip(self.parameters, self.views(vector), strict=True) if p in trained]

    def _twin(self, weights: Tensor, buffers: Tensor) -> Network:
        """A copy of the network with other weights, in eval mode."""
        twin = copy.deepcopy(self.net).eval()
        FlatNet(twin).load(weights, buffers)
        return twin


def _clearing(frozen: Tensor, dtype: torch.dtype) -> Clearing:
    """The fastest way to set the frozen entries of a gradient to 0: few of them by index, many by a product."""
    if frozen.is_contiguous() and frozen.sum().item() <= FEW * frozen.numel():
        entries = frozen.flatten().nonzero().flatten()
        return lambda gradient: gradient.view(-1).index_fill_(0, entries, 0.0)
    trains = (~frozen).to(dtype)  # 8 x faster than a boolean mask
    return lambda gradient: gradient.mul_(trains)


def _flatten(tensors: Sequence[Tensor]) -> Tensor:
    """Move tensors into one vector and make each of them a view of it."""
    size = sum(t.numel() for t in tensors)
    vector = tensors[0].new_empty(size) if tensors else torch.empty(0)
    for tensor, view in zip(tensors, _split(vector, tensors), strict=True):
        view.copy_(tensor.detach())
        tensor.data = view
    return vector


def _split(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    pieces = vector.split([t.numel() for t in like])
    return [_shaped(piece, t) for piece, t in zip(pieces, like, strict=True)]


def _shaped(piece: Tensor, like: Tensor) -> Tensor:
    """View a piece of the vector as `like`. Kernels are stored channels-last, the faster layout on CPU and GPU."""
    if like.dim() == 4:
        outputs, inputs, height, width = like.shape
        return piece.view(outputs, height, width, inputs).permute(0, 3, 1, 2)
    return piece.view(like.shape)
