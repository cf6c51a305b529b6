"""Local training on Lightning Fabric: one network, reused for client after client."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fedpan_exp.data import Batch, ImageTensors, ImageTransform
from fedpan_exp.models import Network
from fedpan_exp.training.fast_sgd import LocalSGD, clip_gradients, keep_freed_memory
from fedpan_exp.training.flat import FlatNet
from fedpan_exp.training.loss_scaling import LossScaling
from fedpan_exp.training.onednn import OneDNNLinear, use_onednn
from fedpan_exp.training.recipe import classification_loss

if TYPE_CHECKING:  # Lightning takes seconds to import
    from lightning import Fabric

    from fedpan_exp.training.module import Classifier

# Most activation values of the widest layer in one evaluation batch: more do not fit into a CPU's cache.
MAX_ACTIVATION_VALUES = {"cpu": 1_500_000, "cuda": 400_000_000}
LARGEST_EVALUATION_BATCH = 2_000


@dataclass
class FitResult:
    """The local training of one client in one round."""

    steps: int
    accumulated_lr: float  # sum of the effective step sizes: steps x lr for plain SGD
    loss: float  # mean over the samples seen
    samples: int


@dataclass
class EvalResult:
    accuracy: float
    loss: float
    samples: int

    def sums(self) -> Tensor:
        """Values that add up over parts of one set of images."""
        correct = round(self.accuracy * self.samples)
        return torch.tensor([correct, self.loss * self.samples, self.samples], dtype=torch.float64)

    @staticmethod
    def from_sums(sums: Tensor) -> "EvalResult":
        correct, loss, samples = sums.tolist()
        return EvalResult(correct / samples, loss / samples, int(samples))


class LocalTrainer:
    """Trains and evaluates `net`; created once per process."""

    def __init__(self, fabric: "Fabric", module: "Classifier", transform: ImageTransform):
        from lightning.fabric.plugins import Precision

        self.fabric, self.settings, self.transform = fabric, module.settings, transform
        converts = type(fabric.strategy.precision) is not Precision  # to another precision, in Fabric's wrapper
        wide: list[OneDNNLinear] = []
        if self.settings.fast and not converts and fabric.device.type == "cpu":
            wide = use_onednn(module.net)
        self.scaling = LossScaling(fabric.strategy.precision)
        self._module = fabric.setup_module(module)
        # In full precision Fabric's wrapper has nothing to convert, and takes 50 µs per call.
        self.net = FlatNet(module.net, self._forward(module.net, converts))
        self._shape_gradients, self._shapes_gradients = module.shape_gradients, module.shapes_gradients
        self._sum_dtype = torch.promote_types(torch.float32, self.net.weights.dtype)
        self._widest_activation: int | None = None
        self._optimizer: LocalSGD | PlainSGD = PlainSGD(module, self.scaling)
        self._clip_gradient_norm = module.clip_gradient_norm
        if self.settings.fast and not self.scaling.is_active:
            self._optimizer = LocalSGD(self.net.parameters, self.settings.momentum)
            self._clip_gradient_norm = lambda: clip_gradients(self.net.gradients(), self.settings.clip, wide)
            keep_freed_memory()

    def _forward(self, net: Network, converts: bool) -> Callable[..., Any] | None:
        """Fabric's wrapper, which converts precisions; None: the network itself."""
        from lightning.fabric.plugins import DoublePrecision

        if self.settings.fast and not converts:
            return None
        if isinstance(self.fabric.strategy.precision, DoublePrecision):  # whose wrapper returns logits of 32 bits
            return lambda x, **options: net(x.double(), **options)
        return self._module

    @property
    def has_batch_norm(self) -> bool:
        return self.net.net.has_batch_norm

    def fit(
        self,
        batches: Iterable[Batch],
        round_idx: int,
        loss: Callable[[Tensor, Tensor], Tensor],
        adjust_gradient: Callable[[], None] | None = None,
        decay: float = 0.0,
    ) -> FitResult:
        """Train on the batches, starting from zero momentum.

        `decay` adds decay/2 |w|^2 to the loss. The optimizer applies it as weight decay in its one pass; with clipping
        it is added to the gradients first, so that it is clipped too. Losses are summed on the device, which the loop
        never waits for. Frozen entries (FlatNet.freezing) have no gradient, no decay and so no momentum: they stay.
        """
        self._module.train()
        total_loss = torch.zeros((), dtype=self._sum_dtype, device=self.fabric.device)
        steps = samples = 0
        velocity = accumulated_lr = 0.0
        clip, is_masked = self.settings.clip, bool(self.net.masked)
        own_decay = 0.0 if self._shapes_gradients else self.settings.weight_decay
        after_clipping = own_decay + (0.0 if clip else decay)
        # The optimizer's own decay would not spare frozen entries.
        with self._optimizer.reset(weight_decay=0.0 if is_masked else after_clipping):
            for x, y in batches:
                lr = self.settings.lr_at(steps, round_idx)
                value = loss(x, y)
                self.fabric.backward(value)
                if isinstance(self._optimizer, PlainSGD):
                    self._optimizer.unscale_gradients()
                if self._shapes_gradients:
                    self._shape_gradients()
                if adjust_gradient is not None:
                    adjust_gradient()
                if clip is not None:
                    self._add_decay(decay)
                if is_masked:
                    self.net.clear_frozen_gradients()
                if clip is not None:
                    self._clip_gradient_norm()
                if is_masked and after_clipping:
                    self._add_decay(after_clipping)
                    self.net.clear_frozen_gradients()
                self._optimizer.step(lr)
                total_loss.add_(value.detach(), alpha=len(y))
                velocity = self.settings.momentum * velocity + 1
                steps, samples, accumulated_lr = steps + 1, samples + len(y), accumulated_lr + lr * velocity
        return FitResult(steps, accumulated_lr, total_loss.item() / max(samples, 1), samples)

    def _add_decay(self, decay: float) -> None:
        if decay:
            torch._foreach_add_(self.net.gradients(), self.net.trained_views(self.net.weights), alpha=decay)

    def momenta(self) -> dict[str, Tensor]:
        """The optimizer's momentum by parameter; empty before the first step of a client."""
        names = (name for name, _ in self.net.net.named_parameters())
        momenta = zip(names, self._optimizer.momenta(), strict=False)
        return {name: momentum for name, momentum in momenta if momentum is not None}

    @torch.inference_mode()
    def evaluate(self, images: ImageTensors) -> EvalResult:
        """Accuracy and loss over all samples, not a mean of batch means."""
        self._module.eval()
        correct = torch.zeros((), dtype=torch.long, device=self.fabric.device)
        total_loss = torch.zeros((), dtype=self._sum_dtype, device=self.fabric.device)
        size = self.evaluation_batch(images.x)
        for x, y in zip(images.x.split(size), images.y.split(size), strict=True):
            logits = self.net(self.transform.normalize(x))
            correct += (logits.argmax(1) == y).sum()
            total_loss += classification_loss(logits, y, reduction="sum")
        return EvalResult(correct.item() / len(images), total_loss.item() / len(images), len(images))

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """[images, classes], in evaluation mode; `x` are images as stored, on any device."""
        self._module.eval()
        batches = x.split(self.evaluation_batch(x))
        return torch.cat([self.net(self.transform.normalize(batch.to(self.fabric.device))) for batch in batches])

    def evaluation_batch(self, x: Tensor) -> int:
        """The batch size that suits the widest activation, which is found by a forward pass of one image."""
        if self._widest_activation is None:
            widths: list[int] = []
            layers = [m for m in self.net.net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
            hooks = [m.register_forward_hook(lambda _m, _x, out: widths.append(out.numel())) for m in layers]
            self.net(self.transform.normalize(x[:1].to(self.fabric.device)))
            for hook in hooks:
                hook.remove()
            self._widest_activation = max(widths)
        values = MAX_ACTIVATION_VALUES.get(self.fabric.device.type, MAX_ACTIVATION_VALUES["cuda"])
        return max(1, min(LARGEST_EVALUATION_BATCH, math.ceil(values / self._widest_activation)))


class PlainSGD:
    """The LightningModule's own optimizer, a new one for every client: what LocalSGD replaces."""

    def __init__(self, module: "Classifier", scaling: LossScaling):
        self._module, self._scaling, self._optimizer = module, scaling, module.make_optimizer()

    @contextmanager
    def reset(self, weight_decay: float) -> Iterator[None]:
        self._optimizer = self._module.make_optimizer(weight_decay)
        self._scaling.reset()
        if self._scaling.is_active and self._module.settings.momentum:
            for parameter in self._module.parameters():  # otherwise torch leaves it unset if the first step is skipped
                self._optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        yield

    def unscale_gradients(self) -> None:
        self._scaling.unscale(self._optimizer)

    def step(self, lr: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._scaling.step(self._optimizer)
        self._optimizer.zero_grad()

    def momenta(self) -> list[Tensor | None]:
        """One per parameter; None before the first step, and for a parameter that is frozen."""
        return [self._optimizer.state[p].get("momentum_buffer") for p in self._module.parameters()]
