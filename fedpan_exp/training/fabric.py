"""Which device and precision to train with: settings passed to lightning.Fabric."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from fedpan_exp.system.errors import ConfigError, first_line, require, require_choice

if TYPE_CHECKING:
    from lightning import Fabric

SHORTEST_TIMEOUT_S = 5  # several signs of life, one per second
PRECISIONS = ("32-true", "64-true", "bf16-mixed", "bf16-true", "16-mixed")


@dataclass
class FabricSettings:
    accelerator: str = "auto"
    devices: Any = 1  # a number, or a list that names the one to use: [1]
    precision: str = "32-true"
    timeout: float = 600.0  # seconds
    tf32: bool = False  # 32-bit matrix products and convolutions on GPUs from Ampere on, with inputs of 19 bits

    def __post_init__(self) -> None:
        require_choice("fabric.precision", self.precision, PRECISIONS)
        require(self.timeout >= SHORTEST_TIMEOUT_S, "fabric.timeout", f"at least {SHORTEST_TIMEOUT_S}", self.timeout)

    def make(self, gpu: int | None = None) -> "Fabric":
        """A Fabric for this process alone; `gpu` is the one to use where several processes share the GPUs."""
        from lightning import Fabric  # takes seconds, which a wrong setting should not

        has_gpu = torch.cuda.is_available()
        if self.accelerator in ("gpu", "cuda") and not has_gpu:
            raise ConfigError(
                f"fabric.accelerator must be auto or cpu where torch finds no GPU, got {self.accelerator}"
            )
        on_gpus = self.accelerator in ("auto", "gpu", "cuda") and has_gpu
        can_scale = on_gpus or self.precision != "16-mixed"
        require(can_scale, "fabric.precision", "bf16-mixed where there is no CUDA GPU", self.precision)
        devices = [gpu] if gpu is not None and on_gpus else self.devices
        try:
            fabric = Fabric(accelerator=self.accelerator, devices=devices, precision=self.precision)  # type: ignore[arg-type]
        except Exception as error:  # Lightning checks these settings itself, with many kinds of exceptions
            raise ConfigError(
                f"fabric must be settings that lightning.Fabric accepts, got {self} ({first_line(error)})"
            ) from None
        require(fabric.world_size == 1, "fabric.devices", "one device", self.devices)
        # By default torch uses TF32 in convolutions, but not in matrix products.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self.tf32
        return fabric
