"""The local trainer: Lightning Fabric drives the same module for client after client."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from lightning import Fabric
from lightning.fabric.plugins import Precision
from torch import Tensor, nn
from torch.nn import functional as F

from fedpan_exp import torchrun
from fedpan_exp.data import Batch, ImageTensors, ImageTransform
from fedpan_exp.models import Linear
from fedpan_exp.system.errors import ConfigError, first_line, require, require_choice
from fedpan_exp.training.allocator import keep_freed_memory
from fedpan_exp.training.flat import FlatNet
from fedpan_exp.training.module import Classifier
from fedpan_exp.training.sgd import LocalSGD

# Evaluation batches hold about this many numbers in their widest layer: more falls out of a CPU's cache.
EVALUATION_NUMBERS = {"cpu": 6_000_000, "cuda": 400_000_000}
LARGEST_EVALUATION_BATCH = 2_000
# From so many weights on, a linear layer's gradients fade: below, the detour through Python takes longer than it saves.
FADING_WEIGHTS = 250_000


@dataclass
class FabricSettings:
    """Passed to lightning.Fabric."""

    accelerator: str = "auto"
    devices: Any = 1  # a number, or a list that names the one to use: [1]
    precision: str = "32-true"

    def __post_init__(self) -> None:
        # 16-mixed scales the loss, and with it the gradients that algorithms correct and clip.
        require_choice("fabric.precision", self.precision, ("32-true", "64-true", "bf16-mixed", "bf16-true"))

    def make(self) -> Fabric:
        try:
            fabric = Fabric(accelerator=self.accelerator, devices=self._devices(), precision=self.precision)  # type: ignore[arg-type]
        except Exception as error:  # Lightning checks these settings itself, with many kinds of exceptions
            raise ConfigError(
                f"fabric must be settings that lightning.Fabric takes, got {self} ({first_line(error)})"
            ) from None
        require(fabric.world_size == 1, "fabric.devices", "one device", self.devices)
        return fabric

    def _devices(self) -> Any:
        """Of several processes on a machine, each takes a GPU of its own."""
        on_gpus = self.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
        return [torchrun.local_rank()] if torchrun.is_launched() and on_gpus else self.devices


@dataclass
class FitResult:
    """What one stretch of local training came to."""

    steps: int
    accumulated_lr: float  # how far the steps would have moved the weights under a constant gradient of 1
    loss: float  # mean over the samples seen
    samples: int


@dataclass
class EvalResult:
    accuracy: float
    loss: float
    samples: int

    def sums(self) -> Tensor:
        """Which add up over parts of one set of images."""
        right = round(self.accuracy * self.samples)
        return torch.tensor([right, self.loss * self.samples, self.samples], dtype=torch.float64)

    @staticmethod
    def of_sums(sums: Tensor) -> "EvalResult":
        right, loss, samples = sums.tolist()
        return EvalResult(right / samples, loss / samples, int(samples))


class LocalTrainer:
    """Set up once a process, reused for every client."""

    def __init__(self, fabric: Fabric, module: Classifier, transform: ImageTransform):
        keep_freed_memory()
        self.fabric, self.settings, self.transform = fabric, module.settings, transform
        self._module = fabric.setup_module(module)
        # In full precision Fabric's wrapper has nothing to convert, and takes 50 µs a call: a tenth of a small step.
        converts = type(fabric.strategy.precision) is not Precision
        self.net = FlatNet(module.net, self._module if converts else None)
        # A gradient to be clipped must stand alone; what is converted is not the weight that the optimizer knows.
        can_fade = self.settings.momentum > 0 and self.settings.clip is None and not converts
        linear = [m for m in module.net.modules() if isinstance(m, Linear) and m.weight.numel() >= FADING_WEIGHTS]
        self._optimizer = LocalSGD(self.net.parameters, self.settings.momentum, linear if can_fade else ())
        self._widest: int | None = None

    @property
    def has_batch_norm(self) -> bool:
        return self.net.net.has_batch_norm

    def fit(
        self,
        batches: Iterable[Batch],
        round_idx: int,
        loss: Callable[[Tensor, Tensor], Tensor],
        adjust_gradient: Callable[[], None],
        decay: float = 0.0,
    ) -> FitResult:
        """Train on the batches with a fresh optimizer. Losses are added up on the device: no waiting in the loop.

        `decay` is a part of the loss, decay/2 |w|^2, which the optimizer adds in its one pass over the weights; only
        where gradients are clipped it must be among them before.
        """
        self._module.train()
        total = torch.zeros((), device=self.fabric.device)
        steps = samples = 0
        velocity = accumulated_lr = 0.0
        with self._optimizer.visit(self.settings.weight_decay + (decay if self.settings.clip is None else 0.0)):
            for x, y in batches:
                lr = self.settings.lr_at(steps, round_idx)
                value = loss(x, y)
                self.fabric.backward(value)
                adjust_gradient()
                if self.settings.clip is not None:
                    if decay:
                        torch._foreach_add_(self.net.gradients(), self.net.views(self.net.weights), alpha=decay)
                    nn.utils.clip_grad_norm_(self.net.parameters, self.settings.clip)
                self._optimizer.step(lr)
                total.add_(value.detach(), alpha=len(y))
                velocity = self.settings.momentum * velocity + 1
                steps, samples, accumulated_lr = steps + 1, samples + len(y), accumulated_lr + lr * velocity
        return FitResult(steps, accumulated_lr, total.item() / max(samples, 1), samples)

    def momenta(self) -> dict[str, Tensor]:
        """The optimizer's, by parameter; none before the first step of a visit."""
        names = (name for name, _ in self.net.net.named_parameters())
        return dict(zip(names, self._optimizer.momenta(), strict=False))

    @torch.inference_mode()
    def evaluate(self, images: ImageTensors) -> EvalResult:
        """Accuracy and loss over all samples, not a mean of batch means."""
        self._module.eval()
        right = torch.zeros((), dtype=torch.long, device=self.fabric.device)
        total = torch.zeros((), device=self.fabric.device)
        size = self.evaluation_batch(images)
        for x, y in zip(images.x.split(size), images.y.split(size), strict=True):
            logits = self.net(self.transform.normalize(x))
            right += (logits.argmax(1) == y).sum()
            total += F.cross_entropy(logits, y, reduction="sum")
        return EvalResult(right.item() / len(images), total.item() / len(images), len(images))

    def evaluation_batch(self, images: ImageTensors) -> int:
        """Chosen by the widest activation, which one image is sent through to find."""
        if self._widest is None:
            widths: list[int] = []
            layers = [m for m in self.net.net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
            hooks = [m.register_forward_hook(lambda _m, _x, out: widths.append(out.numel())) for m in layers]
            self.net(self.transform.normalize(images.x[:1]))
            for hook in hooks:
                hook.remove()
            self._widest = max(widths)
        numbers = EVALUATION_NUMBERS.get(self.fabric.device.type, EVALUATION_NUMBERS["cuda"])
        return max(1, min(LARGEST_EVALUATION_BATCH, math.ceil(numbers / self._widest)))
