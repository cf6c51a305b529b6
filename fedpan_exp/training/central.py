"""Training at one place: `lightning.Trainer`, with its bar and its checkpoints, epoch after epoch."""

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import RichProgressBar
from safetensors import SafetensorError

from fedpan_exp.checks import Diverged, first_line
from fedpan_exp.console import console, warn
from fedpan_exp.data import Batch, Clients
from fedpan_exp.stopping import Stop
from fedpan_exp.training.local import FabricSettings
from fedpan_exp.training.module import Classifier
from fedpan_exp.training.safe_io import SafeIO


class Epochs:
    """One client's batches, an epoch at a time: what a DataLoader would be, without one."""

    def __init__(self, clients: Clients, k: int, B: int, skip_single: bool, stop: Stop, beat: Callable[[], None]):
        self._clients, self._k, self._B, self._skip_single = clients, k, B, skip_single
        self.stop, self._beat = stop, beat
        self.epoch = 1

    def __len__(self) -> int:
        samples = self._clients.samples(self._k)
        return math.ceil(samples / self._B) - (self._skip_single and samples % self._B == 1)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.stop.heed(self._clients.batches(self._k, self.epoch, 1, self._B, self._skip_single)):
            self._beat()
            yield batch


class Keeper(Callback):
    """Tells of every epoch, and then keeps it: an interrupted training goes on behind its last whole one."""

    def __init__(self, batches: Epochs, path: Path, tell: Callable[[int, float], dict[str, float]]):
        self._batches, self._path, self._tell = batches, path, tell

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._batches.epoch = trainer.current_epoch + 1

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        epoch, loss = trainer.current_epoch + 1, trainer.callback_metrics["train/loss"].item()
        if not math.isfinite(loss):
            raise Diverged(f"diverged in epoch {epoch}: the training loss is {loss}; try a smaller study.lr")
        pl_module.log_dict(self._tell(epoch, loss), prog_bar=True)
        trainer.save_checkpoint(self._path)


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


def epochs_done(path: Path) -> int:
    """Of a training that was interrupted, by its checkpoint."""
    if not path.exists():
        return 0
    try:
        return SafeIO().load_checkpoint(path)["epoch"] + 1
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        warn(f"the checkpoint {path} is passed over: {first_line(error)}")
        path.unlink()
        return 0


def train(
    module: Classifier,
    batches: Epochs,
    epochs: int,
    path: Path,
    fabric: FabricSettings,
    tell: Callable[[int, float], dict[str, float]],
) -> None:
    """From the checkpoint in `path`, if there is one. `tell` hears of each epoch and its mean loss, and answers with
    what is worth a place beside Lightning's bar."""
    bar = [RichProgressBar(leave=True)] if console.is_terminal else []
    with quiet_lightning():
        trainer = Trainer(
            accelerator=fabric.accelerator,
            devices=fabric.devices,
            precision=fabric.precision,  # type: ignore[arg-type]
            max_epochs=epochs,
            callbacks=[Keeper(batches, path, tell), *bar],
            plugins=[SafeIO()],
            logger=False,
            enable_checkpointing=False,  # Keeper's work
            enable_progress_bar=bool(bar),
            enable_model_summary=False,
        )
        try:
            trainer.fit(module, batches, ckpt_path=path if path.exists() else None)
        except SystemExit as end:  # what Lightning makes of Ctrl-C and SIGTERM
            batches.stop.end_if_asked()
            raise end.__context__ or end from None
