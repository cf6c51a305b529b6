"""Centralized training: `lightning.Trainer` with its progress bar and a checkpoint per epoch."""

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
from fedpan_exp.training.fabric import FabricSettings
from fedpan_exp.training.module import Classifier
from fedpan_exp.training.safe_io import SafeIO


class EpochBatches:
    """The batches of one client, one epoch per iteration: replaces the DataLoader in lightning.Trainer."""

    def __init__(
        self, clients: Clients, k: int, B: int, skip_single: bool, stop: StopRequest, heartbeat: Callable[[], None]
    ):
        self._clients, self._k, self._B, self._skip_single = clients, k, B, skip_single
        self.stop, self._heartbeat = stop, heartbeat
        self._epoch = 1

    def __len__(self) -> int:
        samples = self._clients.samples(self._k)
        return math.ceil(samples / self._B) - (self._skip_single and samples % self._B == 1)

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __iter__(self) -> Iterator[Batch]:
        batches = self._clients.batches(self._k, self._epoch, 1, self._B, self._skip_single)
        for batch in self.stop.interruptible(batches):
            self._heartbeat()
            yield batch


class EpochCheckpoint(Callback):
    """Reports every epoch with its mean loss, then saves it: interrupted training resumes after its last whole epoch.

    `report` returns what to show in Lightning's progress bar; `position` the current size of the records in bytes.
    """

    def __init__(self, path: Path, report: Callable[[int, float], dict[str, float]], position: Callable[[], int]):
        self.path, self._report, self._position = path, report, position

    def state_dict(self) -> dict[str, int]:
        return {"records": self._position()}

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        epoch, loss = trainer.current_epoch + 1, trainer.callback_metrics["train/loss"].item()
        if not math.isfinite(loss):
            raise Diverged(
                f"diverged in epoch {epoch}: the training loss is {loss}; try a smaller study.lr or a bound on the "
                "gradient, training.clip"
            )
        pl_module.log_dict(self._report(epoch, loss), prog_bar=True)
        trainer.save_checkpoint(self.path)


class TrainingProgress(NamedTuple):
    """How far an interrupted training had come."""

    epochs: int = 0
    records: int = 0  # bytes of records that belong to these epochs


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Silence what Lightning prints about devices and about itself."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            yield
    finally:
        logger.setLevel(level)


def read_progress(path: Path) -> TrainingProgress:
    """Read the progress from a checkpoint; one that cannot be read is deleted with a warning."""
    if not path.exists():
        return TrainingProgress()
    try:
        checkpoint = SafeIO().load_checkpoint(path)
        return TrainingProgress(checkpoint["epoch"] + 1, checkpoint["callbacks"][EpochCheckpoint.__name__]["records"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        warn(f"ignoring the checkpoint {path}: {first_line(error)}")
        path.unlink()
        return TrainingProgress()


def train(
    module: Classifier, batches: EpochBatches, epochs: int, checkpoint: EpochCheckpoint, fabric: FabricSettings
) -> None:
    """Train for `epochs` epochs, resuming from the checkpoint if there is one."""
    set_epoch = LambdaCallback(on_train_epoch_start=lambda trainer, _: batches.set_epoch(trainer.current_epoch + 1))
    bar = [RichProgressBar(leave=True)] if console.is_terminal else []
    with quiet_lightning():
        trainer = Trainer(
            accelerator=fabric.accelerator,
            devices=fabric.devices,
            precision=fabric.precision,  # type: ignore[arg-type]
            max_epochs=epochs,
            callbacks=[set_epoch, checkpoint, *bar],
            plugins=[SafeIO()],
            logger=False,
            enable_checkpointing=False,  # EpochCheckpoint does it
            enable_progress_bar=bool(bar),
            enable_model_summary=False,
        )
        try:
            trainer.fit(module, batches, ckpt_path=checkpoint.path if checkpoint.path.exists() else None)
        except SystemExit as end:  # Lightning turns Ctrl-C and SIGTERM into it
            batches.stop.raise_if_requested()
            raise end.__context__ or end from None
