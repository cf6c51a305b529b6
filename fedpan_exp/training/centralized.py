"""Training at one place: `lightning.Trainer`, with its bar and its checkpoints, epoch after epoch."""

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import LambdaCallback, RichProgressBar
from safetensors import SafetensorError

from fedpan_exp.data import Batch, Clients
from fedpan_exp.system.console import console, warn
from fedpan_exp.system.errors import Diverged, first_line
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.training.local import FabricSettings
from fedpan_exp.training.module import Classifier
from fedpan_exp.training.safe_io import SafeIO


class Epochs:
    """One client's batches, an epoch at a time: what a DataLoader would be, without one."""

    def __init__(
        self, clients: Clients, k: int, B: int, skip_single: bool, stop: StopRequest, heartbeat: Callable[[], None]
    ):
        self._clients, self._k, self._B, self._skip_single = clients, k, B, skip_single
        self.stop, self._beat = stop, heartbeat
        self._epoch = 1

    def __len__(self) -> int:
        samples = self._clients.samples(self._k)
        return math.ceil(samples / self._B) - (self._skip_single and samples % self._B == 1)

    def turn_to(self, epoch: int) -> None:
        self._epoch = epoch

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.stop.interruptible(
            self._clients.batches(self._k, self._epoch, 1, self._B, self._skip_single)
        ):
            self._beat()
            yield batch


class Keeper(Callback):
    """Tells of every epoch and its mean loss, then keeps it: an interrupted training goes on behind its last whole one.

    `tell` answers with what is worth a place beside Lightning's bar; `records` counts the bytes of records by then.
    """

    def __init__(self, path: Path, tell: Callable[[int, float], dict[str, float]], records: Callable[[], int]):
        self.path, self._tell, self._records = path, tell, records

    def state_dict(self) -> dict[str, int]:
        return {"records": self._records()}

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        epoch, loss = trainer.current_epoch + 1, trainer.callback_metrics["train/loss"].item()
        if not math.isfinite(loss):
            raise Diverged(
                f"diverged in epoch {epoch}: the training loss is {loss}; try a smaller study.lr or a bound on the "
                "gradient, training.clip"
            )
        pl_module.log_dict(self._tell(epoch, loss), prog_bar=True)
        trainer.save_checkpoint(self.path)


class Begun(NamedTuple):
    """How far an interrupted training has come."""

    epochs: int = 0
    records: int = 0  # bytes of records that belong to it


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """What Lightning tells of devices and of itself is not worth a line; our own words say what matters."""
    words = logging.getLogger("lightning.pytorch")
    level = words.level
    words.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            yield
    finally:
        words.setLevel(level)


def begun(path: Path) -> Begun:
    """By its checkpoint; one that cannot be read is passed over."""
    if not path.exists():
        return Begun()
    try:
        checkpoint = SafeIO().load_checkpoint(path)
        return Begun(checkpoint["epoch"] + 1, checkpoint["callbacks"][Keeper.__name__]["records"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        warn(f"the checkpoint {path} is passed over: {first_line(error)}")
        path.unlink()
        return Begun()


def train(module: Classifier, batches: Epochs, epochs: int, keeper: Keeper, fabric: FabricSettings) -> None:
    """From the keeper's checkpoint on, if there is one."""
    turn = LambdaCallback(on_train_epoch_start=lambda trainer, _: batches.turn_to(trainer.current_epoch + 1))
    bar = [RichProgressBar(leave=True)] if console.is_terminal else []
    with quiet_lightning():
        trainer = Trainer(
            accelerator=fabric.accelerator,
            devices=fabric.devices,
            precision=fabric.precision,  # type: ignore[arg-type]
            max_epochs=epochs,
            callbacks=[turn, keeper, *bar],
            plugins=[SafeIO()],
            logger=False,
            enable_checkpointing=False,  # the keeper's work
            enable_progress_bar=bool(bar),
            enable_model_summary=False,
        )
        try:
            trainer.fit(module, batches, ckpt_path=keeper.path if keeper.path.exists() else None)
        except SystemExit as end:  # what Lightning makes of Ctrl-C and SIGTERM
            batches.stop.raise_if_requested()
            raise end.__context__ or end from None
